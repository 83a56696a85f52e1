"""Trust: are the calls right, is the confidence right, is the model right, is the design right?

Here is what may be believed of an answer, as numbers; what a person is told about it belongs to `lab`. Read `metrics`
(calls against the truth), `fit` (do the counts look like the model), `diagnosis` (what is wrong where they do not),
`confidence` (the probability that an answer is right, learned by simulation and kept by `cache`), and `verification`
(the design read back from a decoder).
"""
