"""Sheets: samples, plates and counts, as people keep them in files.

This room reads and names them. It decodes and decides nothing, and does not use plans. Read `names`, `headers` and
`plates`, then `samples`, `layouts` (where the counts are in a sheet), `cycles` (files of PCR machines) and `counts`
(their values).
"""
