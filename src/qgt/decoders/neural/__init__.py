"""Networks as decoders: architectures, and trained models that can be saved, loaded and called.

How a network gets its weights is described in `qgt.learning`.
"""
