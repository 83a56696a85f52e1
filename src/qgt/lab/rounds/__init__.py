"""Later rounds, for people: the files of a round, and the pools of the next one for instances that need it.

This room has the laboratory's side; `qgt.rounds` chooses the most informative pools, and `qgt.lab.answers` decodes all
rounds together. Read `files`, then `follow_up`.
"""
