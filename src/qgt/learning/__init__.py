"""Learning: how a network gets its weights.

This room has losses, data, optimisation, checkpoints and the choice of a threshold; the networks themselves, as
decoders that can be saved, loaded and called, are in `decoders.neural`. Read `training` (the loop, fine-tuning, and how
far a decoder is from the best), `run` (one epoch), `steps` (one step, its instances, loss and optimisers), then
`checkpoints`.
"""
