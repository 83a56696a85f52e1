"""Studies: grids of problems and decoders in, outcomes in a database out, and what they add up to.

study = Study.load("study.toml")
run_study(study, "study.db", workers=4)
found = study_results(study, "study.db")
compare_decoders(found, "AMP", "GAMP")

Here is what is measured and how it is kept; how it looks belongs to `pictures`. Read `plan` (tasks), `batch` (the unit
of work), `running` with `workers` or `cluster` (who does it), `networks` (what is trained for it), `store` and
`reading`.
"""

from qgt.study.networks import NetworkTraining, ensure_stack, network_path, training_seconds
from qgt.study.plan import Study, Task
from qgt.study.reading import (
    Comparison,
    Measured,
    ReadBack,
    StudyCounts,
    StudyResult,
    compare_decoders,
    markdown,
    measured_on,
    paired_with_limit,
    study_results,
    to_milliseconds,
    write_csv,
)
from qgt.study.running import StudyProgress, networks_folder, run_study, train_all
from qgt.study.store import Reading, Row

__all__ = [
    "Comparison",
    "Measured",
    "NetworkTraining",
    "ReadBack",
    "Reading",
    "Row",
    "Study",
    "StudyCounts",
    "StudyProgress",
    "StudyResult",
    "Task",
    "compare_decoders",
    "ensure_stack",
    "markdown",
    "measured_on",
    "network_path",
    "networks_folder",
    "paired_with_limit",
    "run_study",
    "study_results",
    "to_milliseconds",
    "train_all",
    "training_seconds",
    "write_csv",
]
