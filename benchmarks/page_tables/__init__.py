"""The tables of README and docs: a module for each room, which ends with `TABLES`, a function for each table's name.

A new table is a function of the repository's root in the module of its room, and a line in that module's `TABLES`.
"""
