"""Theory: what a problem allows, before anything is decoded.

Here live bounds on the number of pools and the predictions of state evolution, each with what it assumes.
What was measured belongs to `study`.
"""
