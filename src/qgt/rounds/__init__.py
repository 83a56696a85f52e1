"""Rounds: what to test next, given the counts so far, and how many tests it takes until the answer is sure.

This room chooses informative pools, keeps the history of instances whose rounds differ, and has policies with the
simulator that counts their tests; files and words of a later round belong to the lab, the command and the page. Read
`history`, `choosing`, `stopping` and `policies`; `schemes` has the schemes of others, for comparison.
"""
