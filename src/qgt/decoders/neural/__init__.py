"""Networks as decoders: architectures, and trained models that can be saved, loaded and called.

Training is in `qgt.learning`; this room has the networks and the record of their training. Read `network` and
`heads`, then `mlp` and `refining`, `decoder`, `record` and `model_file`; `any_design` is one network for all designs.
"""
