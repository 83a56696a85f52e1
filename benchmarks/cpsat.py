"""The cheapest x of one instance by CP-SAT (ortools), for comparison: plain arrays in, no torch.

Each pool's count is a variable whose cost is looked up in its table. CP-SAT has whole numbers only, so costs are
rounded to millionths: an answer is compared by its own cost, computed again elsewhere.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SCALE = 1_000_000


class Instance(NamedTuple):
    """One instance: rows of items with tables of what their counts cost, infinite where impossible."""

    members: list[list[int]]
    tables: list[NDArray[np.float64]]
    weights: NDArray[np.float64]
    known: NDArray[np.int8]
    budget: float


class Solved(NamedTuple):
    """Whether the answer is proved to be the cheapest, the answer (none defective if none was found), the time."""

    proved: bool
    x: list[int]
    seconds: float


def solve(instance: Instance) -> Solved:
    """The cheapest x, within the budget."""
    from ortools.sat.python import cp_model

    start = time.perf_counter()
    proved, x = _solve(cp_model, instance)
    return Solved(proved, x, time.perf_counter() - start)


def _solve(cp_model: Any, instance: Instance) -> tuple[bool, list[int]]:
    model = cp_model.CpModel()
    x = [
        model.new_bool_var("") if status < 0 else model.new_constant(int(status)) for status in instance.known.tolist()
    ]
    terms = [round(SCALE * w) * one for w, one in zip(instance.weights.tolist(), x, strict=True)]
    for items, table in zip(instance.members, instance.tables, strict=True):
        possible = np.flatnonzero(np.isfinite(table[: len(items) + 1]))
        if not len(possible):
            return True, [0] * len(x)
        if np.ptp(table[possible]) == 0 and len(possible) == len(items) + 1:
            continue
        costs = np.rint(SCALE * (table - table[possible].min()))
        chosen = [model.new_bool_var("") for _ in possible]
        model.add_exactly_one(chosen)
        counts = zip(possible.tolist(), chosen, strict=True)
        model.add(sum(x[item] for item in items) == sum(count * one for count, one in counts))
        terms += [int(costs[count]) * one for count, one in zip(possible.tolist(), chosen, strict=True)]
    model.minimize(sum(terms))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = instance.budget
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return status == cp_model.INFEASIBLE, [0] * len(x)
    return status == cp_model.OPTIMAL, [int(solver.value(one)) for one in x]
