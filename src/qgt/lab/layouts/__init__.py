"""The layouts in which people keep counts: a column per pool, a row per pool, or plates as they stand on the bench.

Each layout finds the cells of every instance in a grid; `qgt.lab.counts` turns the cells into numbers.
"""
