"""Answers: from a sheet of counts to calls, verdicts, accounts and files to keep.

This room reports on one sheet, of one round or of several; the next tests belong to `rounds`. Read `decoding`
(`decode_history` shows the way of every sheet), `accounts` (everything about one instance, computed once), `outputs`
(files and pages), and `checking` (proofs compared with counts).
"""
