"""Sheets: samples, plates and counts, as people keep them in files.

Here is what reads and names them; nothing is decoded or decided, and nothing of plans is known. Read `names`, `headers`
and `plates`, then `samples`, `layouts` (where the counts are in a sheet) and `counts` (what they are).
"""
