"""Exact decoding one instance at a time, by the integer programs of SciPy's HiGHS.

This room has two decoders and the programs that they solve, without batches and without proofs that others can check.
Read `integer_program`, which turns costs into programs, then `exact`, the exact decoder and its relaxation.
"""
