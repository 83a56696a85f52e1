"""Later rounds, for people: the files of a round, and the pools of the next one for instances that need it.

This is the laboratory's side; `qgt.rounds` chooses the most informative pools, and `qgt.lab.answers` decodes all
rounds together.

A round is a folder of three files:

    pools.csv    instance,pool,items: what to put together; names of items are separated by blanks
    counts.csv   instance,pool,count: to be filled in; a count that stays empty is missing
    round.json   the record: the pools again, the design and the counts that they were chosen for, the rounds before

The record is written last, so a folder that has one is whole. Counts are matched by the names of instance and pool.
Where pools report cycle thresholds or amounts, the table of a PCR machine may replace counts.csv.

Pools are called R2-K7F3-1: the round, the code of its proposal, and a number. The code stands for the pools and for
what they were chosen by, so two proposals of one round never have a name in common, on tubes and in files alike. Rounds
of qgt 0.1 have names without a code (R2-1).

Rounds that are out of order, given twice, or made for another design or other counts are refused by name: pools of one
plate with the counts of another would give answers that look sure. A count may be blanked after the round was made (a
repeat showed that it was wrong), but not changed.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from qgt.arguments import whole
from qgt.decoders.results import Status
from qgt.files import codec, documents
from qgt.files.grids import Grid, csv_bytes, read_grid, read_grids, unescape
from qgt.files.tables import NOT_DETECTED, report_cell
from qgt.lab.answers.accounts import Account
from qgt.lab.answers.decoding import DecodedSheet
from qgt.lab.reported import read_reports
from qgt.lab.sheets.counts import names_targets, noise_of_reports, read_wells
from qgt.lab.sheets.cycles import refuse_targets
from qgt.lab.sheets.layouts import another_proposal
from qgt.lab.sheets.names import PROPOSAL_LENGTH, check_code, code_of, proposal_in, proposed_name
from qgt.lab.verdicts import Verdict
from qgt.lab.wording import percent
from qgt.model.design import Design
from qgt.model.noise import Noise
from qgt.model.problem import Problem
from qgt.rounds.choosing import NextPools, later_noise, next_pools
from qgt.rounds.history import History
from qgt.trust.diagnosis import Rescue

# The files of a later round: which pools each instance has, and the counts that come back.

RECORD, POOLS, COUNTS = "round.json", "pools.csv", "counts.csv"
COUNTS_HEADER = ["instance", "pool", "count"]  # of the counts


@dataclass(frozen=True)
class InstancePools:
    """One instance's pools in a round."""

    name: str
    counts: tuple[float | None, ...]  # of all rounds before, as they were when the pools were chosen
    pools: tuple[tuple[str, tuple[str, ...]], ...]  # each with its name and its items' names


@dataclass(frozen=True)
class Round:
    """The record of a round.

    Example:
        >>> one = Round(2, "ab", "", (InstancePools("s1", (1.0,), (("R2-1", ("I1", "I3")),)),))
        >>> Round.from_plain(one.plain) == one
        True
    """

    number: int  # 2 for the first that follows
    design: str  # the fingerprint of the first round's
    before: str  # the fingerprint of the round before; empty where that is the first
    instances: tuple[InstancePools, ...]
    categories: tuple[str, ...] = ()  # that pools report, by their names; none where a pool reports one number

    @property
    def plain(self) -> dict[str, object]:
        """As plain data."""
        return {
            "kind": "round",
            "number": self.number,
            "design": self.design,
            "before": self.before,
            **({"categories": list(self.categories)} if self.categories else {}),
            "instances": [
                {
                    "name": one.name,
                    "counts": [NOT_DETECTED if count == math.inf else count for count in one.counts],  # JSON has no inf
                    "pools": [[pool, list(items)] for pool, items in one.pools],
                }
                for one in self.instances
            ],
        }

    @classmethod
    def from_plain(cls, data: object) -> "Round":
        """From plain data; what is wrong is named."""
        table = codec.as_table("round", data)
        required = {"kind", "number", "design", "before", "instances"}
        codec.check_keys("round", table, required=required, optional={"categories"})
        if table["kind"] != "round":
            raise ValueError(f"kind={codec.shown(table['kind'])} is not valid: a record of a round has kind 'round'.")
        instances = tuple(map(_instance, codec.typed("instances", table["instances"], list)))
        design, before = (codec.typed(key, table[key], str) for key in ("design", "before"))
        named = codec.typed("categories", table.get("categories", []), list)
        categories = tuple(codec.typed("categories", one, str) for one in named)
        return cls(whole("number", table["number"], least=2), design, before, instances, categories)

    @property
    def code(self) -> str:
        """Four characters that stand for the proposal: its pools and what they were chosen by, not the pools' names.

        Example:
            >>> one = Round(2, "ab", "", (InstancePools("s1", (1.0,), (("R2-1", ("I1", "I3")),)),))
            >>> one.code, one.named().instances[0].pools[0][0], one.named().code == one.code
            ('CWTB', 'R2-CWTB-1', True)
        """
        bare = [replace(one, pools=tuple(("", items) for _, items in one.pools)) for one in self.instances]
        return code_of(bytes.fromhex(replace(self, instances=tuple(bare)).fingerprint), PROPOSAL_LENGTH)

    def named(self) -> "Round":
        """The same round whose pools have names of its own, numbered through all instances."""
        code, before, instances = self.code, 0, []
        for one in self.instances:
            named = enumerate(one.pools, before + 1)
            pools = tuple((proposed_name(self.number, code, place), items) for place, (_, items) in named)
            instances.append(replace(one, pools=pools))
            before += len(pools)
        return replace(self, instances=tuple(instances))

    @property
    def fingerprint(self) -> str:
        """By which the next round names this one."""
        text = json.dumps(self.plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def files(self, folder: Path) -> dict[Path, Callable[[Path], object]]:
        """What writes each file; the record stands first, for the first is put in place last."""
        pools = [(one.name, pool, items) for one in self.instances for pool, items in one.pools]
        contents = {
            RECORD: (json.dumps(self.plain, indent=1, allow_nan=False) + "\n").encode(),
            POOLS: csv_bytes([("instance", "pool", "items"), *pools]),
            COUNTS: self.counts_file([None] * len(self.pool_keys)),
        }
        return {folder / name: partial(Path.write_bytes, data=data) for name, data in contents.items()}

    @property
    def pool_keys(self) -> list[tuple[str, str]]:
        """The names of the instance and of the pool of every count, in the order of the files.

        Where pools report categories, each has a count for each of them, whose name is that of the pool and category.
        """
        return [(one.name, name) for one in self.instances for pool, _ in one.pools for name in self.report_names(pool)]

    def report_names(self, pool: str) -> tuple[str, ...]:
        """The names of a pool's counts: its own, or one with each category."""
        return tuple(f"{pool} {category}" for category in self.categories) or (pool,)

    def noise_of_counts(self, noise: Noise) -> Noise:
        """The noise of every count, in the order of the files, where all pools have this one."""
        each = len(self.categories) or 1
        return noise_of_reports(noise, len(self.pool_keys) // each, each)

    def counts_file(self, counts: Sequence[float | None]) -> bytes:
        """The content of `counts.csv` with these counts filled in, empty where one is None."""
        rows = [(*key, report_cell(count)) for key, count in zip(self.pool_keys, counts, strict=True)]
        return csv_bytes([COUNTS_HEADER, *rows])


def _instance(data: object) -> InstancePools:
    table = codec.as_table("instances", data)
    codec.check_keys("instances", table, required={"name", "counts", "pools"})
    counts = codec.typed("counts", table["counts"], list)
    pools = []
    for pool in codec.typed("pools", table["pools"], list):
        match pool:
            case [str(name), list(items)]:
                pools.append((name, tuple(codec.typed("pools", item, str) for item in items)))
            case _:
                raise ValueError(f"pools={codec.shown(pool)} is not valid: give a name and a list of items.")
    before = tuple(map(_count_before, counts))
    return InstancePools(codec.typed("name", table["name"], str), before, tuple(pools))


def _count_before(count: object) -> float | None:
    """A count of a record: a number, nothing where one was missing, or words where nothing was detected."""
    if count == NOT_DETECTED:
        return math.inf
    if count is not None and (not isinstance(count, int | float) or isinstance(count, bool)):
        raise ValueError(
            f"counts={codec.shown(count)} is not valid: give numbers, null where one was missing, or {NOT_DETECTED!r}."
        )
    return None if count is None else float(count)


def refuse_occupied(folder: Path) -> None:
    """Raise a ValueError for a folder with anything in it but what a round leaves that was killed while written."""
    if not folder.exists():
        return
    if (folder / RECORD).exists():
        raise ValueError(f"{folder}: holds a round already, perhaps with counts; give another folder.")
    own = folder.is_dir() and all(
        path.name.lstrip(".").startswith((RECORD, POOLS, COUNTS)) for path in folder.iterdir()
    )
    if not own or not _blank(folder / COUNTS):  # a plan's folder has counts, too
        raise ValueError(f"{folder}: is there already, and not empty; give another folder.")


def _blank(path: Path) -> bool:
    """Whether a round's counts are not filled in, or not there."""
    if not path.exists():
        return True
    try:
        header, *rows = read_grid(path).rows
    except ValueError:
        return False
    return list(header) == COUNTS_HEADER and not any(count for *_, count in rows)


def counts_before(y: Tensor) -> tuple[float | None, ...]:
    """Counts as a record keeps them."""
    return tuple(None if math.isnan(count) else count for count in y.flatten().tolist())


class RoundReports(NamedTuple):
    """The reports of a round's pools by the names of instance and pool, NaN where one is missing; and notes."""

    counts: Mapping[tuple[str, str], float]
    notes: tuple[str, ...] = ()


class FilledRound(NamedTuple):
    """A round's record, and its counts by the names of instance and pool; NaN where one is missing."""

    where: str  # what to call it in errors: its folder
    record: Round
    counts: Mapping[tuple[str, str], float]
    notes: tuple[str, ...] = ()  # on how a machine's table was read
    targets: bool = False  # whether the counts are from a machine's table that names targets


def read_round(
    folder: Path, problem: Problem, counts: Path | None = None, *, target: str | None = None, control: str | None = None
) -> FilledRound:
    """Read a round's folder.

    Args:
        folder: The round's folder.
        problem: That of the first round.
        counts: The file of the reports, where that is not the folder's `counts.csv`.
        target: Which target of a PCR machine's table to read; not used for a file that does not name targets.
        control: The target that is the internal control, or none; not used for a file that does not name targets.
    """
    if not (folder / RECORD).is_file():
        raise ValueError(f"{folder}: has no {RECORD}, so it is not a round; give a folder that 'qgt follow-up' wrote.")
    record = documents.load(folder / RECORD, "round", Round.from_plain)
    path = counts or folder / COUNTS
    used = names_targets(read_grids(path), problem.noise)
    chosen = (target, control) if used else (None, None)  # they may be meant for the file of another round
    found, notes = read_round_reports(record, path, problem, target=chosen[0], control=chosen[1])
    if all(map(math.isnan, found.values())):
        raise ValueError(f"{path}: no count is filled in; write the counts there, or leave the round out.")
    return FilledRound(str(folder), record, found, notes, used)


def read_round_reports(
    record: Round,
    source: str | Path,
    problem: Problem,
    *,
    data: bytes | None = None,
    target: str | None = None,
    control: str | None = None,
) -> RoundReports:
    """The reports of a round's pools: from `counts.csv` filled in, or from the table of a PCR machine.

    A machine's table is read as that of a first round, by the same function and with the same refusals.

    Args:
        record: The round.
        source: The file, or what to call it where `data` is given.
        problem: That of the first round.
        data: The file's content, as with an upload.
        target: Which target of a machine's table to read; refused with other files.
        control: The target that is the internal control, or none; refused with other files.
    """
    noise = later_noise(problem.noise)
    grids = read_grids(source, data)
    if _is_counts(grids):
        refuse_targets(str(source), target, control)
        return RoundReports(_counts(grids[0], record, noise))
    names = tuple(pool for _, pool in record.pool_keys)
    if len(set(names)) == len(names):  # in rounds of qgt 0.1 pools of several instances have the same name
        code = check_code(problem.design)
        wells = read_wells(source, grids, names, code, noise, target=target, control=control, one_set=True)
        if wells is not None:
            counts = dict(zip(record.pool_keys, wells.y.flatten().tolist(), strict=True))
            return RoundReports(counts, wells.notes)
    raise ValueError(f"{source}: row 1 is not 'instance,pool,count'; fill in the file that 'qgt follow-up' wrote.")


def proposals_in(source: str, data: bytes) -> set[str]:
    """The codes of the proposals whose pools a file names."""
    cells = (unescape(cell) for grid in read_grids(source, data) for row in grid.rows for cell in row if cell)
    return {code for cell in cells if (code := proposal_in(cell)) is not None}


def _is_counts(grids: Sequence[Grid]) -> bool:
    """Whether a file is a round's own table: instance, pool, count."""
    if len(grids) != 1 or not grids[0].rows:
        return False
    header = grids[0].rows[0]
    return [cell.lower() for cell in header if cell] == COUNTS_HEADER and all(header[:3])


def _counts(grid: Grid, record: Round, noise: Noise) -> dict[tuple[str, str], float]:
    keys = record.pool_keys
    wanted = set(keys)
    cells = [list(row) for row in grid.rows]
    found: dict[tuple[str, str], int] = {}
    for number, row in enumerate(cells[1:], 1):
        if not any(row):
            continue
        if (grid.lengths and grid.lengths[number] < len(COUNTS_HEADER)) or any(row[len(COUNTS_HEADER) :]):
            held = grid.lengths[number] if grid.lengths else len(row)
            raise ValueError(
                f"{grid.place(number)} has {held} cells; give instance, pool and count (a decimal comma splits a cell)."
            )
        key, where = (unescape(row[0]), unescape(row[1])), grid.place(number)
        if key not in wanted:
            other = proposal_in(key[1])
            why = (
                another_proposal(other, record.code)
                if other not in (None, record.code)
                else "which this round has not."
            )
            raise ValueError(f"{where} is for pool {key[1]!r} of {key[0]!r}, {why}")
        if key in found:
            raise ValueError(f"{where} gives pool {key[1]!r} of {key[0]!r} a second time; keep one.")
        found[key] = number
    if lacking := sorted(wanted - found.keys()):
        name, pool = lacking[0]
        raise ValueError(
            f"{grid.name}: has no row for pool {pool!r} of {name!r}; add it, empty where it was not measured."
        )
    rows = [found[key] for key in keys]
    ((values,), _) = read_reports(
        [[unescape(cells[row][2]) for row in rows]],
        record.noise_of_counts(noise),
        lambda _, i: grid.place(rows[i], 2),
    )
    return dict(zip(keys, values, strict=True))


def after_rounds(
    histories: Sequence[History], names: Sequence[str], rounds: Sequence[FilledRound]
) -> tuple[list[History], list[Round]]:
    """Histories with the pools and counts of later rounds, and the rounds' records; refused where they do not belong.

    Args:
        histories: The first round of each instance.
        names: The instances' names.
        rounds: The later rounds, in order.
    """
    known = dict(zip(names, histories, strict=True))
    if len(known) < len(names):
        raise ValueError("two instances have the same name: give each its own, for rounds are matched by name.")
    design = histories[0].problem.design
    records: list[Round] = []
    for number, (folder, record, counts, *_) in enumerate(rounds, 2):
        _refuse_strange(folder, number, record, records, design)
        for one in record.instances:
            if one.name not in known:
                raise ValueError(f"{folder}: has pools for {one.name!r}, but the counts have no such instance.")
            known[one.name] = _after(folder, known[one.name], one, counts, record, design)
        records.append(record)
    return [known[name] for name in names], records


def _refuse_strange(folder: str, number: int, record: Round, before: Sequence[Round], design: Design) -> None:
    if record.design != design.fingerprint:
        raise ValueError(
            f"{folder}: was made for another design; give the problem and the counts that it was made for."
        )
    if record.fingerprint in [one.fingerprint for one in before]:
        raise ValueError(f"{folder}: is given twice; give each round once.")
    if record.number != number:
        raise ValueError(
            f"{folder}: is round {record.number}, but stands where round {number} should; give all rounds, in order."
        )
    if record.before != (before[-1].fingerprint if before else ""):
        raise ValueError(f"{folder}: does not follow the round before it; give the rounds that it was made after.")


def _after(
    folder: str,
    history: History,
    one: InstancePools,
    counts: Mapping[tuple[str, str], float],
    record: Round,
    design: Design,
) -> History:
    """One instance's history with its pools of a round."""
    if record.categories != history.problem.reported_categories:
        raise ValueError(f"{folder}: was made for other categories; give the problem that it was made for.")
    now = history.y.flatten().tolist()
    same = len(now) == len(one.counts) and all(
        math.isnan(count) or count == then for count, then in zip(now, one.counts, strict=True)
    )
    if not same:
        raise ValueError(
            f"{folder}: the pools of {one.name!r} were chosen by other counts than those given; give the counts that "
            "the round was made for (one that proved wrong may be left empty)."
        )
    number = {name: item for item, name in enumerate(design.item_names)}
    matrix = torch.zeros(len(one.pools), design.items, dtype=torch.uint8)
    for row, (pool, items) in zip(matrix, one.pools, strict=True):
        for item in items:
            if item not in number:
                raise ValueError(
                    f"{folder}: puts {item!r} into {pool!r} of {one.name!r}, but the design has no such item."
                )
            row[number[item]] = 1
    y = torch.tensor(
        [counts[one.name, name] for pool, _ in one.pools for name in record.report_names(pool)], dtype=torch.float64
    )
    return history.after(matrix, y.view(len(matrix), *history.y.shape[1:]), [pool for pool, _ in one.pools])


# What to test next, for people: which instances are not certain yet, their pools, and how many tests may remain.


@dataclass(frozen=True, eq=False)
class Proposed:
    """The pools proposed for one instance, and why."""

    account: Account
    pools: NextPools
    repeats: tuple[str, ...]  # pools that are measured again, where the counts do not fit


def propose(
    decoded: DecodedSheet,
    *,
    confidence: float,
    pools: int,
    generator: Generator,
    at_most: int | None = None,
    each_at_most: int | Sequence[int] | None = None,
    risk: float = 0.01,
) -> list[Proposed]:
    """Pools for every instance that is not certain; those whose counts do not fit repeat what does not."""
    found = []
    for i, (history, account) in enumerate(zip(decoded.histories, decoded.accounts, strict=True)):
        trusted = account.verdict not in (Verdict.IMPOSSIBLE, Verdict.SUSPECT)
        if trusted and (account.confidence or 0.0) >= confidence:
            continue
        again = _again(history, account, decoded.rescues.get(i))[:pools]
        if trusted or not again:
            own = decoded.result.pick(torch.tensor([i]))
            (chosen,) = next_pools(
                history.problem, history.y[None], own, pools=pools, at_most=at_most, each_at_most=each_at_most,
                risk=risk, generator=generator,
            )  # fmt: skip
            if len(chosen.matrix):
                found.append(Proposed(account, chosen, ()))
                continue
        if again:  # answers are not to be trusted, or leave no doubt among them: it is counts that are in doubt
            names = history.problem.design.pool_names
            matrix = history.problem.design.matrix[again]
            found.append(Proposed(account, NextPools(matrix, 0.0, 0.0, 1.0), tuple(names[pool] for pool in again)))
    return found


def _again(history: History, account: Account, lost: Rescue | None) -> list[int]:
    """The pools to measure again: those whose counts must be wrong, or those that are off, the farthest first."""
    names = history.problem.in_parts.design.pool_names  # of counts: those of one category after those of another
    if account.verdict is Verdict.IMPOSSIBLE:
        wrong = set(lost.wrong) if lost is not None else set(names)
        found = [count for count, name in enumerate(names) if name in wrong]
        return sorted({count % history.problem.pools for count in found})
    expected = {one.pool: abs(one.off) for one in account.residuals}
    off = sorted(
        (count for count, name in enumerate(names) if name in expected), key=lambda count: -expected[names[count]]
    )
    return list(dict.fromkeys(count % history.problem.pools for count in off))


def as_round(decoded: DecodedSheet, proposed: Sequence[Proposed], before: Sequence[Round], design: str) -> Round:
    """The record of the round that the proposals make."""
    number = len(before) + 2
    place = {name: i for i, name in enumerate(decoded.names)}
    instances = []
    for one in proposed:
        history = decoded.histories[place[one.account.name]]
        items = history.problem.design.item_names
        pools = [("", tuple(items[item] for item in members)) for members in one.pools.members]
        instances.append(InstancePools(one.account.name, counts_before(history.y), tuple(pools)))
    categories = decoded.problem.reported_categories
    return Round(number, design, before[-1].fingerprint if before else "", tuple(instances), categories).named()


def proposal_in_words(one: Proposed) -> str:
    """One instance's proposal as a sentence or two."""
    number = len(one.pools.matrix)
    pools = f"{number} pool" + ("s" if number > 1 else "")
    if one.repeats:
        return f"{pools}, to measure {', '.join(one.repeats)} again: the counts do not fit the model."
    more = max(0, one.pools.remaining - number)
    them = "them" if number > 1 else "it"
    after = (
        f"about {more} more test{'s' if more > 1 else ''} after {them}" if more else f"probably no test after {them}"
    )
    return f"{pools}; {after}."


def why_no_pools(account: Account, *, confidence: float, at_most: int | None = None) -> str:
    """Why an instance that is not sure has no proposal, as a sentence or two."""
    if account.verdict in (Verdict.IMPOSSIBLE, Verdict.SUSPECT):
        return (
            "The counts do not fit the model, and none of them stands out as wrong: check the counts, the pools and "
            "the assay's error, then enter the counts again."
        )
    if account.status == Status.TIME_LIMIT:
        return (
            "The search for answers ran out of time, so the answers between which pools should decide are not known: "
            "give more time for each plate, or test the doubtful samples alone."
        )
    if (account.confidence or 0.0) >= confidence:
        return f"The probability of the answer is {percent(account.confidence or 0.0)} already, which is enough."
    within = "" if at_most is None else f" of at most {at_most} sample{'s' if at_most > 1 else ''}"
    return (
        f"No pool{within} would decide between the answers that remain: check the counts, allow larger pools, or test "
        "the doubtful samples alone."
    )


def used_up(items: Sequence[str], names: Sequence[str], pools: int) -> list[int]:
    """How many pools each item may be in, none for those that are used up."""
    gone, known = set(names), set(items)
    if strange := sorted(gone - known):
        raise ValueError(f"used_up={strange[0]!r} is not an item of the design: use its names, such as {items[0]!r}.")
    return [0 if item in gone else pools for item in items]
