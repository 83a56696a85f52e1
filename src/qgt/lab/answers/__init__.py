"""Answers: from a sheet of counts to calls, verdicts, accounts and files to keep.

Here is what is said about one sheet; what to test next belongs to `rounds`. Read `decoding`, `accounts` (everything
about one instance, computed once), `outputs` (its files and pages), and `checking` (proofs held against counts).
"""
