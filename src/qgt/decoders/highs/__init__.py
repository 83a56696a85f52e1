"""Exact decoding one instance at a time, by the integer programs of SciPy's HiGHS.

`exact` and `linear_program` are the decoders; the other modules turn a problem's costs into programs.
"""
