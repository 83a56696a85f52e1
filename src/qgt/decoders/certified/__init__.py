"""Certified decoding: the most probable x of whole batches, proved, by a relaxation and a search over all at once.

Here is the search; what checks its proofs is `qgt.decoders.checker`, and neither imports the other. Read
docs/certified.md, then `costs`, `relaxation`, `nodes`, `search` and `decoder`. Beyond the plain case are `steps`
(tables with steps) and `large` (large sparse problems, one instance after the other).
"""
