"""Networks as decoders: architectures, and trained models that can be saved, loaded and called.

How a network gets its weights is described in `qgt.learning`; here is what it is, and what it says of its training.
Read `network`, then `mlp` and `refining`, `decoder`, `record` and `model_file`.
"""
