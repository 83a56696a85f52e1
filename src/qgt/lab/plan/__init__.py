"""Plans: from what a laboratory knows about its samples to pools, sheets to print and worklists for robots.

This room has everything that happens before the pools are made; only simulated counts are decoded here. Read
`question`, `transfers` (designs), `simulation` (how well they do), `planning` (which one to recommend), then `folder`
and `robots` (the files).
"""
