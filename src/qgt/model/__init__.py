"""The model: designs, priors, noises, and the problem they make together, with its factors.

Here lives everything a decoder may know before it sees counts, as distributions that can be sampled and computed with.
How to find x from counts belongs to `decoders`, what a model implies for any decoder to `theory`.
"""
