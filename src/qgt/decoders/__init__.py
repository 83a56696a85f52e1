"""Decoders: from counts to calls, each behind the contract of `decoders.contract`.

This room has one file for each decoder and one folder for each family that needs several, and `checker`, which checks
proofs and imports nothing of the search. A decoder gets a problem and counts, never x: its success is measured in
`trust` and `study`. Read `results` and `contract`, then a decoder of one page (`greedy`, `classical`, `exhaustive`),
then `registry`, which lists the decoders that files can name; `certified` has an order of reading of its own.
"""
