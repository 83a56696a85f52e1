"""Answers: from a sheet of counts to calls, verdicts, accounts and files to keep.

This room reports on one sheet; the next tests belong to `rounds`. Read `decoding`, `accounts` (everything about one
instance, computed once), `outputs` (its files and pages), and `checking` (proofs compared with counts).
"""
