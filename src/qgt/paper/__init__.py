"""The paper's experiments, repeated: two figures and a table, with more decoders and with the limit of all decoders.

counts = reproduce("out/paper", QUICK, workers=2)
redraw("out/paper")

This room only uses `study`: code that another study would need belongs there. Read `plan`, `running` and `tables`.
"""

from qgt.paper.plan import FULL, QUICK, PaperPlan, ResidualNetworks, Scale
from qgt.paper.running import redraw, reproduce
from qgt.paper.tables import TABLES, Counts, needed, pools_needed, run_facts

__all__ = [
    "FULL",
    "QUICK",
    "TABLES",
    "Counts",
    "PaperPlan",
    "ResidualNetworks",
    "Scale",
    "needed",
    "pools_needed",
    "redraw",
    "reproduce",
    "run_facts",
]
