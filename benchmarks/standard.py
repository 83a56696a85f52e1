"""The standard benchmark for all decoders of the package, on many cores at once: results/standard.json.

    python benchmarks/standard.py --processes 12        # rows of a decoder on a problem, one thread each
    qgt bench standard -o results/standard.json         # the same, one row after the other

Rows that the file has are measured again only with `--again`; the file names the machine of its first rows. Give fewer
processes than the machine has cores: the time limit of decoders that search counts seconds by the clock.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

from qgt.study.standard import StandardResults, StandardRow, run_standard, standard_decoders, standard_problems
from setting import in_processes, provenance

OUTPUT = Path("results/standard.json")
SLOW = ("certified", "exact", "pretrained", "load_posterior")  # first, so that none of them is alone in the end


class Task(NamedTuple):
    """One row."""

    problem: str
    decoder: str
    seconds: float


def measured(task: Task) -> StandardRow:
    """In a process of its own."""
    problems = [one for one in standard_problems() if one.name == task.problem]
    decoders = {task.decoder: standard_decoders()[task.decoder]}
    return run_standard(decoders, problems=problems, seconds=task.seconds)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0, help="for each row")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all of them")
    parser.add_argument("--again", action="store_true", help="measure all rows again")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    stored = None if given.again or not given.output.exists() else StandardResults.load(given.output)
    rows, made_on = ([], provenance("cpu")) if stored is None else (list(stored.rows), stored.made_on)
    known = {(row.problem, row.decoder) for row in rows}
    names = [*SLOW, *(name for name in standard_decoders() if name not in SLOW)]
    order = [(one.name, name) for name in names for one in standard_problems()]
    place = {key: number for number, key in enumerate(order)}
    tasks = [Task(*key, given.seconds) for key in order if key not in known]
    for row in in_processes(measured, tasks, processes=given.processes, seconds=60 * given.minutes):
        rows.append(row)
        print(row.problem, row.decoder, row.right, row.instances, f"{row.seconds:.1f} s", flush=True)
        ordered = sorted(rows, key=lambda row: place.get((row.problem, row.decoder), len(place)))  # plugins last
        StandardResults(ordered, made_on=made_on).save(given.output)


if __name__ == "__main__":
    main()
