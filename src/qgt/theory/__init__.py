"""Theory: what a problem allows, before anything is decoded.

This room has bounds on the number of pools and the predictions of state evolution, each with its assumptions.
Measurements belong to `study`.
"""
