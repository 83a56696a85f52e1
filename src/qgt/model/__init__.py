"""The model: designs, priors, noises, and the problem they make together, with its factors.

This room has everything a decoder is given besides the counts, as distributions that can be sampled and computed with.
Finding x from counts belongs to `decoders`, and what a model implies for any decoder to `theory`. Read `design`,
`prior` and `noise`, then `factors`, which adds them up to one sum, and `problem`, which contains them; `lists`,
`constructions` (by chance), `combinatorial` (by a rule) and `design_forms` store, construct, read and write designs.
"""
