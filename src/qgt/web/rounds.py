"""Follow-up rounds of a run: the next pools for every plate that is not certain, and all rounds decoded together."""

import csv
import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from qgt.files.tables import cell_of, escape
from qgt.lab.rounds.files import COUNTS, Round, joined_rounds
from qgt.lab.rounds.follow_up import DecodedRounds, Proposed, as_round, decode_rounds, proposal_in_words, propose
from qgt.model.problem import Problem
from qgt.rounds.history import History
from qgt.rounds.stopping import Settle
from qgt.web.settings import Settings

CONFIDENCE = 0.99  # where to stop: what the verdict `certain` asks for
SEED = 0


def decoded(problem: Problem, counts: Mapping[str, Any], settings: Settings) -> tuple[DecodedRounds, list[Round]]:
    """The plates of a version with all their rounds, decoded, and the rounds' records."""
    first = [History.start(problem, row) for row in tensor_of(counts)]
    with tempfile.TemporaryDirectory() as name:
        folders = [_folder(Path(name) / str(n), one) for n, one in enumerate(counts.get("rounds", ()))]
        histories, before = joined_rounds(first, counts["names"], folders)
    settle = Settle(confidence=CONFIDENCE, time_limit=settings.seconds)
    return decode_rounds(histories, counts["names"], settle, first=problem, generator=_generator()), before


def proposal(
    problem: Problem, counts: Mapping[str, Any], settings: Settings, *, pools: int, at_most: int | None
) -> dict[str, object]:
    """The pools to test next after a version, as the store keeps them.

    Plates whose counts do not fit get no new pools but the names of those to count again: a correction settles them.
    """
    found, before = decoded(problem, counts, settings)
    proposed = propose(
        found,
        confidence=CONFIDENCE,
        pools=pools,
        at_most=at_most,
        risk=(1 - CONFIDENCE) / 2,
        generator=_generator(),
    )
    new, again = [one for one in proposed if not one.repeats], [one for one in proposed if one.repeats]
    record = as_round(found, new, before, problem.design.fingerprint)
    given = {one.account.name for one in proposed}
    return {
        "record": record.plain if new else None,
        "words": {one.account.name: proposal_in_words(one) for one in new},
        "again": {one.account.name: list(one.repeats) for one in again},
        "stuck": [one.name for one in found.accounts if one.name not in given and str(one.verdict) != "certain"],
        "tests": sum(map(_tests, new)),
    }


def tensor_of(counts: Mapping[str, Any]) -> torch.Tensor:
    """The counts of a submission; one that is missing is NaN."""
    rows = [[float("nan") if value is None else value for value in row] for row in counts["values"]]
    return torch.tensor(rows, dtype=torch.float64)  # (instances, pools)


def counts_file(record: Round, counts: Sequence[float | None]) -> bytes:
    """The counts of a round as the file that 'qgt follow-up' lets people fill in."""
    rows = [(one.name, pool) for one in record.instances for pool, _ in one.pools]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["instance", "pool", "count"])
    for (name, pool), count in zip(rows, counts, strict=True):
        writer.writerow([escape(name), escape(pool), cell_of(count)])
    return stream.getvalue().encode()


def _folder(folder: Path, one: Mapping[str, Any]) -> Path:
    """A round that was entered here, as the folder that the lab reads."""
    folder.mkdir()
    record = Round.from_plain(one["record"])
    for path, write in record.files(folder).items():
        write(path)
    (folder / COUNTS).write_bytes(counts_file(record, one["counts"]))
    return folder


def _tests(one: Proposed) -> int:
    return len(one.pools.matrix)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(SEED)
