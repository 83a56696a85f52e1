"""Studies: from grids of problems and decoders to outcomes in a database, and the rates computed from them.

study = Study.load("study.toml")
run_study(study, "study.db", workers=4)
found = study_results(study, "study.db")
compare_decoders(found, "AMP", "GAMP")

This room measures outcomes and stores them; figures belong to `pictures`. Read `plan` (tasks), `batch` (the unit of
work, here or in processes), `running` and `cluster` (which run the batches), `networks` (the networks trained for a
study), `store` and `reading`.
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
