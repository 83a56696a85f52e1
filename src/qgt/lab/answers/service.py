"""Decoding many sheets of one plan: what `qgt decode` does, as an object that a program keeps.

`qgt decode` reads the plan, binds a decoder, measures on simulated plates what its answers are worth, reads a sheet and
decodes it. Only the last two depend on the sheet. A `SheetDecoder` does the rest once, and any number of threads may
use it at the same time. The page and the JSON API decode with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from qgt.decoders.registry import make_decoder
from qgt.lab.answers.decoding import (
    LIMITED_DECODERS,
    SECONDS_PER_PLATE,
    DecodedSheet,
    OnInstancesDone,
    decode_sheet,
    usual_decoder,
)
from qgt.lab.answers.outputs import products, sheet_facts
from qgt.lab.plan.folder import PlanFolder, read_plan
from qgt.lab.sheets.counts import CountSheet, read_counts
from qgt.lab.sheets.samples import Samples
from qgt.model.problem import Problem
from qgt.trust.confidence import BoundCalibrated, Calibrated


@dataclass(frozen=True, eq=False)
class SheetDecoder:
    """What `qgt decode` does, bound once: sheets of counts in, calls out. Threads may share it.

    Example:
        >>> import tempfile, torch, qgt
        >>> question = qgt.Question(qgt.Samples.numbered(12), (0, 1), certainty=0.8)
        >>> plan = qgt.plan(question, generator=torch.Generator().manual_seed(0), seconds=0.5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = qgt.write_plan(plan, f"{folder}/plan")
        ...     decoder = qgt.SheetDecoder.of_plan(f"{folder}/plan", calibrate=0.3)
        >>> lines = ["pool,count", *(f"{pool},0" for pool in decoder.problem.design.pool_names)]
        >>> sheet = decoder.decode("\\n".join(lines).encode())
        >>> [(one.name, str(one.verdict), one.positives) for one in sheet.accounts]
        [('1', 'certain', ())]
    """

    name: str  # of the decoder, as `qgt decode` calls it
    problem: Problem
    samples: Samples | None  # where the samples stand; None without a plan
    decoder: BoundCalibrated
    seconds: float | None = SECONDS_PER_PLATE  # for each plate; None for no limit

    @classmethod
    def of_plan(
        cls,
        plan: str | Path | PlanFolder,
        *,
        seconds: float | None = SECONDS_PER_PLATE,
        calibrate: float = 10.0,
        cache: Path | None = None,
    ) -> "SheetDecoder":
        """Get ready to decode the sheets of a plan.

        Args:
            plan: The folder that `qgt plan` or `write_plan` wrote, or what `read_plan` read.
            seconds: The longest search for one plate; None sets no limit. Plates that take longer are reported as not
                proved.
            calibrate: Seconds of simulations that measure what answers are worth. They run once, with the first sheet
                or in `prepare`.
            cache: A folder that keeps what the simulations taught for the next process; None keeps nothing.
        """
        found = plan if isinstance(plan, PlanFolder) else read_plan(plan)
        made = cls.of_problem(found.problem, seconds=seconds, calibrate=calibrate, cache=cache)
        return replace(made, samples=found.samples)

    @classmethod
    def of_problem(
        cls,
        problem: Problem,
        *,
        seconds: float | None = SECONDS_PER_PLATE,
        calibrate: float = 10.0,
        cache: Path | None = None,
    ) -> "SheetDecoder":
        """Get ready to decode the sheets of a problem that is not from a plan; see `of_plan`."""
        name = usual_decoder(problem).name
        limited = seconds is not None and name in LIMITED_DECODERS
        inner = make_decoder(name, {"time_limit": str(seconds)} if limited else {})
        decoder = Calibrated(inner, seconds=calibrate, cache=cache).bind(problem)
        return cls(name, problem, None, decoder, seconds)

    def prepare(self) -> "SheetDecoder":
        """Run the simulations now instead of with the first sheet."""
        self.decoder.learned()
        return self

    @property
    def prepared(self) -> bool:
        """Whether the simulations have run."""
        return bool(self.decoder._learned)

    def read(
        self,
        counts: str | Path | bytes,
        *,
        called: str = "The sheet",
        target: str | None = None,
        control: str | None = None,
    ) -> CountSheet:
        """Read a sheet of counts; its `notes` say what was assumed.

        Args:
            counts: A file, or its content: CSV or XLSX, in any layout that `qgt decode` reads.
            called: What errors call a sheet that is given as bytes.
            target: Which target of a PCR machine's file to read, where the file has several.
            control: The target that is the internal control.

        Raises:
            ValueError: What is wrong, where, and what to write instead.
        """
        source, data = (called, counts) if isinstance(counts, bytes) else (counts, None)
        return read_counts(
            source,
            self.problem.design,
            self.samples,
            noise=self.problem.noise,
            data=data,
            target=target,
            control=control,
            categories=self.problem.reported_categories,
        )

    def decode(
        self, counts: str | Path | bytes | CountSheet, *, on_progress: OnInstancesDone | None = None
    ) -> DecodedSheet:
        """Decode a sheet: an account of every plate, with its verdict and the call of each sample.

        Args:
            counts: A file, its content, or what `read` made of it.
            on_progress: Called with the number of plates that are done, and of all.
        """
        sheet = counts if isinstance(counts, CountSheet) else self.read(counts)
        found = decode_sheet(self.problem, sheet.y, sheet.names or None, self.decoder, on_progress=on_progress)
        return replace(found, notes=sheet.notes)

    def facts(self, sheet: DecodedSheet) -> dict[str, object]:
        """A decoded sheet as plain data: what `qgt decode --json` prints."""
        return {**sheet_facts(sheet, self.name), "notes": list(sheet.notes)}

    def files(self, sheet: DecodedSheet, *, title: str, facts: Mapping[str, object] | None = None) -> dict[str, bytes]:
        """The files about a decoded sheet by their names: a report, tables of calls and, where there are any, proofs.

        Args:
            sheet: What `decode` made.
            title: The title of the report.
            facts: What the foot of the report says, so that the report can be traced.
        """
        return products(
            sheet,
            title=title,
            decoder=self.name,
            facts=facts or {},
            samples=self.samples,
            seconds=self.seconds,
        )
