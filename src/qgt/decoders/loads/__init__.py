"""Decoders of loads: who is positive and how much each has, where pools report totals of amounts.

Read `tables` (what a report says of a total), `evidence` (how probable a set of positives is, its loads integrated out
by Laplace's method), `draws` (the same by importance sampling), `search` and `chains` (which sets are worth looking
at), `posterior` (the decoder). Nothing here knows of laboratories.
"""
