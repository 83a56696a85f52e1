"""Belief propagation: the factor graph of a problem, messages of one factor, and sweeps over all of them.

Nothing here knows what a noise or a prior is called: all of them are tables over numbers of defectives. Read `graph`
(which factors there are), `sweeps` (what they tell their items, and until when), then `decoder`.
"""
