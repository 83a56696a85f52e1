"""Decoders: from counts to calls, each behind the contract of `decoders.contract`.

Here is one file for each decoder and one folder for each family that needs several, and `checker`, which checks proofs
and imports nothing of the search. A decoder sees a problem and counts, never x: how well it does is measured in `trust`
and `study`. Read `results` and `contract`, then a decoder of one page (`greedy`, `classical`, `exhaustive`), then
`registry`, which lists those with a name in files; `certified` has an order of reading of its own.
"""
