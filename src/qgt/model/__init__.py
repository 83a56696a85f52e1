"""The model: designs, priors, noises, and the problem they make together, with its factors.

Here is everything a decoder may know before it sees counts, as distributions that can be sampled and computed with; how
to find x from counts belongs to `decoders`, and what a model implies for any decoder to `theory`. Read `design`,
`prior` and `noise`, then `factors`, which makes one sum of them, and `problem`, which holds them; `lists`,
`constructions` and `design_file` are how designs are kept, made and written.
"""
