"""Later rounds, for people: the files of a round, which instances need one, and what all rounds together say.

Here is the laboratory's side; which pools tell most is decided in `qgt.rounds`. Read `files`, then `follow_up`.
"""
