"""The paper's experiments again: two figures and a table, beside decoders it did not have and the limit of all.

counts = reproduce("out/paper", QUICK, workers=2)
redraw("out/paper")
"""

from qgt.paper.counts import Counts
from qgt.paper.plan import FULL, QUICK, Plan, Residual, Scale
from qgt.paper.running import redraw, reproduce
from qgt.paper.tables import TABLES, needed, pools_needed, run_facts

__all__ = [
    "FULL",
    "QUICK",
    "TABLES",
    "Counts",
    "Plan",
    "Residual",
    "Scale",
    "needed",
    "pools_needed",
    "redraw",
    "reproduce",
    "run_facts",
]
