"""Exact decoding one instance at a time, by the integer programs of SciPy's HiGHS.

Here are two decoders, and the programs that they solve; nothing here knows of batches or of proofs that others check.
Read `integer_program`, which turns costs into programs, then `exact` and `linear_program`.
"""
