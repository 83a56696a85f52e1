"""The tally of a task: its rows in the order of their batches, up to where the task stops.

The stop rule (enough batches, or enough failures) looks at the batches in order, never at when they were finished. So
where a task stops, and what it adds up to, is the same for any number of workers; rows beyond are not counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from qgt.study.plan import Task
from qgt.study.store import Row


@dataclass(eq=False)
class Tally:
    """Rows as they arrive, and those of them that count."""

    task: Task
    rows: list[Row] = field(default_factory=list)  # those that count, in order
    failures: int = 0
    _known: dict[int, Row] = field(default_factory=dict)

    @classmethod
    def of(cls, task: Task, rows: Iterable[Row]) -> "Tally":
        """The tally of rows that are there already."""
        tally = cls(task)
        for row in rows:
            tally.add(row)
        return tally

    def add(self, row: Row) -> None:
        """Take a row, in any order."""
        self._known[row.batch] = row
        while not self.finished and len(self.rows) in self._known:
            counted = self._known[len(self.rows)]
            self.rows.append(counted)
            self.failures += counted.failures

    def __contains__(self, batch: int) -> bool:
        return batch in self._known

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be decoded."""
        failed = self.task.max_failures is not None and self.failures >= self.task.max_failures
        return failed or len(self.rows) >= self.task.batches

    @property
    def done(self) -> int:
        """How many of the task's batches need no more work."""
        return self.task.batches if self.finished else sum(batch < self.task.batches for batch in self._known)
