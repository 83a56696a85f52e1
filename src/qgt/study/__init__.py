"""Studies: grids of problems and decoders in, outcomes in a database out, and what they add up to.

study = Study.load("study.toml")
run_study(study, "study.db", workers=4)
found = study_results(study, "study.db")
compare_decoders(found, "AMP", "GAMP")
"""

from qgt.study.counts import StudyCounts
from qgt.study.networks import Training, ensure_stack, network_path, training_seconds
from qgt.study.pairs import Comparison, against_limit, compare_decoders
from qgt.study.plan import Study, Task
from qgt.study.reading import (
    Measured,
    ReadBack,
    StudyResult,
    markdown,
    measured_on,
    study_results,
    to_milliseconds,
    write_csv,
)
from qgt.study.running import StudyProgress, networks_folder, run_study, train_all
from qgt.study.store import Reading, Row

__all__ = [
    "Comparison",
    "Measured",
    "ReadBack",
    "Reading",
    "Row",
    "Study",
    "StudyCounts",
    "StudyProgress",
    "StudyResult",
    "Task",
    "Training",
    "against_limit",
    "compare_decoders",
    "ensure_stack",
    "markdown",
    "measured_on",
    "network_path",
    "networks_folder",
    "run_study",
    "study_results",
    "to_milliseconds",
    "train_all",
    "training_seconds",
    "write_csv",
]
