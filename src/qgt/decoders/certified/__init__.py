"""Certified decoding: a batched relaxation, a search over all instances at once, and a checker of its proofs.

`decoder` is the way in. `certificate` checks what the others claim and imports none of them.
"""
