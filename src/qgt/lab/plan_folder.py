"""The plan folder: everything between a plan and the counts, written once and read back for decoding."""

from dataclasses import dataclass
from pathlib import Path

from qgt.lab.planning import Plan
from qgt.lab.samples import Samples
from qgt.model.problem import Problem


@dataclass(frozen=True, eq=False)
class PlanFolder:
    """What a plan folder holds."""

    name: str  # the design's short name
    code: str  # its check code
    problem: Problem
    samples: Samples


def write_plan(plan: Plan, folder: str | Path) -> PlanFolder:
    """Write a plan into a new folder."""
    raise NotImplementedError


def read_plan(folder: str | Path) -> PlanFolder:
    """Read what `write_plan` wrote."""
    raise NotImplementedError
