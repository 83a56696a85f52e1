"""Decoders: from counts to calls, each behind the contract of `decoders.contract`.

One file for each decoder, one folder for each family that needs several; `registry` lists those with a name in files.
`checker` checks the proofs of `certified` and shares no code with it; `certificate_file` keeps them in files.
A decoder sees a problem and counts, never x; how well it does is measured in `trust` and `study`.
"""
