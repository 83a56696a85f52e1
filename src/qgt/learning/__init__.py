"""Learning: how a network gets its weights.

This room has losses, data, optimisation, checkpoints and the choice of a threshold; the networks themselves, as
decoders that can be saved, loaded and called, are in `decoders.neural`. Read `training` (the loop), `run` (one epoch),
`steps` (one step) and `data`; then `optimizers`, `checkpoints`, and `limit`, which measures how far a decoder is from
the best.
"""
