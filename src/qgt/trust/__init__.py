"""Trust: are the calls right, is the sheet right, is the model right?

Here live scores against the truth and the design read back from a decoder.
What a person is told about it belongs to `lab`.
"""
