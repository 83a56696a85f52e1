"""Belief propagation: the factor graph of a problem, messages of one factor, and sweeps over all of them.

No code here depends on the kind of a noise or a prior: all of them are tables over numbers of defectives. Read `sweeps`
(the factors, their messages, and when to stop), then `decoder`.
"""
