"""Studies: grids of problems and decoders in, counts in a database out, and what they add up to.

study = Study.load("study.toml")
run(study, "study.db", workers=4)
found = results(study, "study.db")
"""

from qgt.study.networks import ensure_stack, network_path
from qgt.study.plan import Study, Task
from qgt.study.reading import Result, markdown, results, write_csv
from qgt.study.running import Progress, networks_folder, run
from qgt.study.store import Row

__all__ = [
    "Progress",
    "Result",
    "Row",
    "Study",
    "Task",
    "ensure_stack",
    "markdown",
    "network_path",
    "networks_folder",
    "results",
    "run",
    "write_csv",
]
