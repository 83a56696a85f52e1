"""Certified decoding: a batched relaxation, and a search over all instances at once, which leaves proofs.

`decoder` is the way in. Read `docs/certified.md`, then costs, relaxation, items and members (the bound), polish, nodes,
levels, branching, stacks and outcome (the search), decoder. Extras: soft, ranges and shares (tables with steps),
recording (a GPU), duals, shrinking and one_by_one (large sparse problems), stragglers (HiGHS).
What it claims is checked in `qgt.decoders.checker`, which imports nothing from here and is imported nowhere here.
"""
