"""Rounds: what to test next, given what is known, and how many tests that takes until the answer is sure.

Here is the choice of pools by what they would tell, the history of instances whose rounds differ, and policies with the
simulator that counts their tests; files and words of a later round belong to the lab and the shells. Read `history`,
`choosing`, `stopping` and `policies`; `schemes` has those of others, to compare with.
"""
