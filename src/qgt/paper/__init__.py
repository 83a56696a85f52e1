"""The paper's experiments again: two figures and a table, beside decoders it did not have and the limit of all.

counts = reproduce("out/paper", QUICK, workers=2)
redraw("out/paper")

Here is a client of `study`: nothing that another study would need. Read `plan`, `running`, `tables` and `drawing`.
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
