"""Certified decoding: the most probable x of whole batches, proved, by a relaxation and a search over all at once.

This room has the search. `qgt.decoders.checker` checks its proofs, and neither imports the other. Read
docs/certified.md, then `costs`, `relaxation`, `nodes`, `search` and `decoder`. Two modules are for special cases:
`steps` (tables with steps) and `large` (large sparse problems, one instance after the other).
"""
