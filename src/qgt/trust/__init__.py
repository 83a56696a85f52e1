"""Trust: are the calls right, is the confidence right, is the model right, is the design right?

This room measures how far to trust an answer, as numbers; the words for people belong to `lab`. Read `metrics` (calls
compared with the truth), `fit` (do the counts look like the model), `diagnosis` (likely causes if they do not),
`confidence` (the probability that an answer is right, measured by simulation and stored by `cache`), and `verification`
(the design recovered from a decoder).
"""
