"""Later rounds, for people: files of a round, instances that need one, and the answer from all rounds together.

This room has the laboratory's side; `qgt.rounds` chooses the most informative pools. Read `files`, then `follow_up`.
"""
