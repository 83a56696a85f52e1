"""Plans: from what somebody knows of the samples to pools, sheets to print and worklists for robots.

Here is everything before the pools are made; counts are not decoded here, except simulated ones. Read `question`,
`transfers` (designs), `simulation` (how well they do), `planning` (which to take), then `folder` and `robots` (what is
written).
"""
