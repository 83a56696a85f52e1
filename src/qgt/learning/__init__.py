"""Learning: how a network gets its weights.

Here live losses, data, optimisation, checkpoints and the choice of a threshold.
The networks themselves, as decoders that can be saved, loaded and called, are in `decoders.neural`.
"""
