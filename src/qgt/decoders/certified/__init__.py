"""Certified decoding: the most probable x of whole batches, proved, by a relaxation and a search over all at once.

This room has the search. `qgt.decoders.checker` checks its proofs, and neither imports the other. Read
docs/certified.md and `Proof` and `LeafItem` in `qgt.decoders.results`, then these files, each of which imports only
those before it:

    costs        what all instances share, the tables of the counts with their envelopes, groups of items
    steps        only where tables have steps: envelopes of a node's own, and charges that pools share out
    iteration    the steps of their method, which torch runs without Python
    relaxation   many linear programs at once: the lower bounds of nodes
    nodes        nodes, how they split, which come next, and what whole answers cost
    search       branch and bound on all trees together, and its outcome as a result
    large        only for large sparse problems: one instance after the other
    blocks       only for categories: each by itself, and their answers put together
    decoder      `qgt.Certified`
"""
