"""Worklists for pipetting robots: the transfers of a design, one small module for each robot's format.

Every module turns the same list of moves into texts of files; `formats` names them all. What a format cannot hold (a
label that is too long, a volume that the robot cannot dose) is changed in a way that is said, or refused.
"""
