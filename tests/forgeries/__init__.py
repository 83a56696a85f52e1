"""Forged certificates, to try a checker with: every way to change an honest one, and an oracle that says what is false.

Here live the ways (`answers`, `proofs`), the oracle (`truth`) and their use (`forging`).
The checker they are put to is `qgt.check_certificate`; nothing here is needed to decode.
"""
