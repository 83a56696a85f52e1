"""What a study found, as one JSON file that is small enough to commit: counts of results and of pairs, and where from.

The outcome of each instance stays in the database; the pairs of decoders that it gives are here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qgt.files import codec
from qgt.files.documents import json_by_rows
from qgt.files.store import write_text
from qgt.study.pairs import Comparison, all_pairs
from qgt.study.plan import Study
from qgt.study.reading import Measured, StudyResult, measured_on, study_results, to_milliseconds


@dataclass(frozen=True)
class StudyCounts:
    """A study's results and its decoders in pairs."""

    measured_on: Measured
    results: Sequence[StudyResult]
    pairs: Sequence[Comparison]

    @classmethod
    def of(cls, study: Study, db: str | Path) -> "StudyCounts":
        """What the database holds of a study."""
        found = study_results(study, db)
        return cls(measured_on([study], db), to_milliseconds(found), all_pairs(found))

    def save(self, path: str | Path) -> None:
        """Write them as JSON, a line for each row so that changes show in a diff."""
        write_text(path, json_by_rows(codec.encode_table("counts", self, StudyCounts)))

    @classmethod
    def load(cls, path: str | Path) -> "StudyCounts":
        """Read a file that `save` wrote."""
        try:
            return codec.decode("counts", json.loads(Path(path).read_text(encoding="utf-8")), cls)
        except OSError as error:
            raise ValueError(f"{path}: cannot be read ({error.strerror}); check the path.") from error
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}: does not hold a study's counts ({error}); write it with 'qgt bench --counts'."
            ) from error
