"""Schemes of others, as policies: individual tests, Dorfman's, halving, and staged schemes for counts.

Each is a short script that yields the pools of a round, gets their counts, and in the end returns the defective items.
Between rounds nothing is kept but the counts: a script runs again over those that there are. Scripts believe their
counts. Where counts are noisy, every pool is measured `lead` times, and then again until one value is `lead` reports
ahead of all others; repeats that were not planned are rounds of their own.

Counts make some tests needless, and no script makes them: the last item of a group, and the second half of one that
was split, follow from the group's count.

`staged` has the structure of Soleymani and Javidi's tunable scheme (ISIT 2024), as their published scripts count it:
the counts of groups; then halvings, in each of which the counts of all left halves are found together by a detecting
matrix; then, within groups, an inner code whose rows are combined across groups by detecting matrices. The number of
halvings tunes rounds against tests: `staged` has one, `staged_longer` three. Assumed: groups of one defective item on
average; codes and matrices found by search, where theirs are BCH and Bshouty's, which are longer at this size.

`checked` stands for Li and Wang's adaptive scheme for perturbed counts (2020). Of it we know the setting, an adversary
who adds bounded errors to every count, and that its rate is the best possible; its steps were not at hand. Assumed:
halving in which both halves are measured, and measured again until they add up to the whole.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations, product
from math import prod

import torch
from torch import Tensor

from qgt.arguments import whole
from qgt.model.prior import Prior
from qgt.rounds.history import History, Setting
from qgt.rounds.policies import PolicyStanding

# Detecting matrices: pools whose counts tell a few cases apart, found by search.
#
# Lindstrom's and Bshouty's constructions tell n whole numbers apart with about 2 n / log2 n sums as n grows. For the
# few groups of a hundred items a search is shorter and finds fewer sums: pools are added one by one, each the one of
# some random ones that tells most cases apart, until none are alike.

Pool = Sequence[int]
Script = Generator[
    Sequence[Pool], list[int], list[int]
]  # pools of a round, their counts, and in the end the defectives
CountedGroup = tuple[Pool, int]  # items, and how many of them are defective
Block = tuple[Tensor, list[list[int]]]  # cases, and the items that each of their columns stands for
MOST_CASES = 1024  # cases that are told apart together
TRIED_POOLS = 32  # random pools, of which the best is taken


def detected(groups: Sequence[Sequence[CountedGroup]]) -> Script:
    """How many of each group's items are defective, in one round: each may have one of a few numbers."""
    return [number for row in (yield from _measured(_cases(groups))) for number in row]


def concatenated(groups: Sequence[CountedGroup]) -> Script:
    """Which items of each group are defective, in one round, given how many are.

    Within a group an inner code, 0/1 rows whose counts tell all sets of that many items apart; across groups, row by
    row, detecting matrices that give the counts of all groups' rows from fewer sums.
    """
    sets = [_subsets(len(items), number) for items, number in groups]
    codes = [_telling(some) for some in sets]
    blocks: list[Block] = []
    for row in range(max(map(len, codes), default=0)):
        some = [(group, code[row]) for group, code in zip(groups, codes, strict=True) if row < len(code)]
        blocks += _cases([_ways(group, inside) for group, inside in some])
    counts = iter([number for block in (yield from _measured(blocks)) for number in block])
    told: list[list[int]] = [[] for _ in groups]
    for row in range(max(map(len, codes), default=0)):
        for own, code in zip(told, codes, strict=True):
            if row < len(code):
                own.append(next(counts))
    defective: list[int] = []
    for (items, _), cases, code, own in zip(groups, sets, codes, told, strict=True):
        found = cases[_nearest(cases @ code.T, own)].tolist()
        defective += [item for item, one in zip(items, found, strict=True) if one]
    return defective


def _ways(group: CountedGroup, row: Tensor) -> list[CountedGroup]:
    """The part of a group that a row takes, with each number of defectives that it may have."""
    items, number = group
    inside = [item for item, one in zip(items, row.tolist(), strict=True) if one]
    least, most = max(0, number - (len(items) - len(inside))), min(number, len(inside))
    return [(inside, count) for count in range(least, most + 1)]


def _cases(groups: Sequence[Sequence[CountedGroup]]) -> list[Block]:
    """Blocks of groups that share no item, with all their cases."""
    blocks = []
    for block in _blocks([len(ways) for ways in groups]):
        ways = [groups[i] for i in block]
        cases = torch.tensor([[number for _, number in case] for case in product(*ways)])
        blocks.append((cases, [list(way[0][0]) for way in ways]))
    return blocks


def _subsets(items: int, number: int) -> Tensor:
    """All sets of so many items, one a row."""
    chosen = torch.tensor(list(combinations(range(items), number)))
    return torch.zeros(len(chosen), items, dtype=torch.int64).scatter_(1, chosen, 1)


def _measured(
    blocks: Sequence[Block],
) -> Generator[Sequence[Pool], list[int], list[list[int]]]:
    """The case of each block, given as its cases and the items that each of their columns stands for."""
    chosen = [_telling(cases) for cases, _ in blocks]
    pools = [
        [item for column in row.nonzero().flatten().tolist() for item in columns[column]]
        for (_, columns), rows in zip(blocks, chosen, strict=True)
        for row in rows
    ]
    counts = list((yield pools) if pools else [])
    answer = []
    for (cases, _), rows in zip(blocks, chosen, strict=True):
        own, counts = counts[: len(rows)], counts[len(rows) :]
        answer.append([int(number) for number in cases[_nearest(cases @ rows.T, own)].tolist()])
    return answer


def _blocks(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Neighbours whose cases multiply to a number that can be searched."""
    block: list[int] = []
    for i, size in enumerate(sizes):
        if block and prod(sizes[j] for j in block) * size > MOST_CASES:
            yield block
            block = []
        block.append(i)
    if block:
        yield block


def _telling(cases: Tensor) -> Tensor:
    """Rows of 0s and 1s whose sums tell all cases apart: (rows, columns)."""
    return _found(bytes(cases.to(torch.uint8).flatten().tolist()), cases.shape[1])


@lru_cache(maxsize=1024)  # a script runs again after every round, over the same cases
def _found(cells: bytes, columns: int) -> Tensor:
    """The rows for cases given as bytes, each the best of some random ones and of single columns."""
    cases = torch.tensor(list(cells)).reshape(-1, columns)
    seeded = torch.Generator().manual_seed(0)  # a script that runs again must choose the same pools
    cell, rows = torch.zeros(len(cases), dtype=torch.int64), []
    while int(cell.max()) + 1 < len(cases):
        tried = torch.rand(TRIED_POOLS, columns, generator=seeded) < 0.5
        tried = torch.cat([tried, torch.eye(columns, dtype=torch.bool)]).to(torch.int64)
        keys = cell[:, None] * (int(cases.sum(1).max()) + 1) + cases @ tried.T  # (cases, tried)
        best = int((keys.sort(0).values.diff(dim=0) > 0).sum(0).argmax())
        rows.append(tried[best])
        cell = keys[:, best].unique(return_inverse=True)[1]
    return torch.stack(rows) if rows else torch.zeros(0, columns, dtype=torch.int64)


def _nearest(predicted: Tensor, counts: Sequence[int]) -> int:
    """The case whose counts are nearest to those measured."""
    if not len(counts):
        return 0
    return int((predicted - torch.tensor(counts)).abs().sum(1).argmin())


# The schemes.

INSIST = 3  # times that a pair of halves is measured before it is believed against the whole


def individual(items: int, rate: float) -> Script:
    """Every item by itself."""
    counts = yield [[item] for item in range(items)]
    return [item for item, count in enumerate(counts) if count > 0]


def dorfman(items: int, rate: float) -> Script:
    """Groups; then the items of those that have some but not all defective."""
    counts = yield (groups := _groups(items, _dorfman_size(rate, items)))
    known = list(zip(groups, counts, strict=True))
    defective, open_ = _settled(known)
    if open_:
        counts = yield [[item] for group, _ in open_ for item in group[:-1]]
        found = iter(counts)
        for group, number in open_:
            ones = [item for item in group[:-1] if next(found) > 0]
            defective += ones + ([group[-1]] if number > len(ones) else [])
    return defective


def halving(items: int, rate: float) -> Script:
    """All items together, then halves of whatever has some but not all defective."""
    return (yield from _halved([list(range(items))]))


def grouped_halving(items: int, rate: float) -> Script:
    """Groups with one defective item on average, then halves."""
    return (yield from _halved(_groups(items, max(1, min(items, round(1 / max(rate, 1e-9)))))))


def staged(items: int, rate: float, stages: int = 1) -> Script:
    """Counts of groups, `stages` halvings by detecting matrices, then an inner code within groups, concatenated."""
    groups = _groups(items, max(2, min(items, round(1 / max(rate, 1e-9)))))
    counts = yield groups
    defective, open_ = _settled(list(zip(groups, counts, strict=True)))
    for _ in range(stages):
        if not open_:
            break
        halves = [(group[: len(group) // 2], group[len(group) // 2 :]) for group, _ in open_]
        ways = [
            [left for left in range(number + 1) if left <= len(a) and number - left <= len(b)]
            for (a, b), (_, number) in zip(halves, open_, strict=True)
        ]
        lefts = yield from detected([[(a, n) for n in way] for (a, _), way in zip(halves, ways, strict=True)])
        parts: list[CountedGroup] = []
        for (a, b), (_, number), left in zip(halves, open_, lefts, strict=True):
            parts += [(a, left), (b, number - left)]
        more, open_ = _settled(parts)
        defective += more
    found = yield from concatenated(open_)
    return defective + found


def checked(items: int, rate: float) -> Script:
    """Halving in which both halves are measured until they add up to the whole, or the same pair came three times."""
    (total,) = yield [list(range(items))]
    defective, open_ = _settled([(list(range(items)), total)])
    while open_:
        halves = [(group[: len(group) // 2], group[len(group) // 2 :]) for group, _ in open_]
        pairs: list[tuple[int, int] | None] = [None] * len(open_)
        seen: list[Counter[tuple[int, int]]] = [Counter() for _ in open_]
        while wrong := [i for i, pair in enumerate(pairs) if pair is None]:
            counts = iter((yield [half for i in wrong for half in halves[i]]))
            for i in wrong:
                pair = next(counts), next(counts)
                seen[i][pair] += 1
                # Where the halves insist, the count of the whole was wrong.
                pairs[i] = pair if sum(pair) == open_[i][1] or seen[i][pair] == INSIST else None
        parts = [
            (half, number)
            for pair, both in zip(pairs, halves, strict=True)
            for half, number in zip(both, pair or (), strict=True)
        ]
        more, open_ = _settled(parts)
        defective += more
    return defective


SCRIPTS: dict[str, Callable[[int, float], Script]] = {
    "individual": individual,
    "dorfman": dorfman,
    "halving": halving,
    "grouped_halving": grouped_halving,
    "staged": staged,
    "staged_longer": partial(staged, stages=3),
    "checked": checked,
}


@dataclass(frozen=True)
class Scheme:
    """One of the schemes above, by its name, as a policy.

    Example:
        >>> import torch, qgt
        >>> from qgt.rounds.policies import simulate_policy
        >>> setting, g = Setting(100, qgt.Bernoulli(0.06), qgt.Noiseless()), torch.Generator().manual_seed(0)
        >>> ran = simulate_policy(Scheme("grouped_halving"), setting, 20, generator=g)
        >>> int(ran.wrong.sum()), 20 < float(ran.tests.double().mean()) < 40
        (0, True)
    """

    name: str
    lead: int = 1  # reports by which a count must be ahead

    def __post_init__(self) -> None:
        if self.name not in SCRIPTS:
            raise ValueError(f"name={self.name!r} is not valid: give one of {', '.join(SCRIPTS)}.")
        object.__setattr__(self, "lead", whole("lead", self.lead, least=1))

    def first_round(self, setting: Setting, *, generator: torch.Generator) -> Tensor:
        """The script's first pools."""
        pools, _ = self._replayed(setting, [])
        return _matrix(pools, setting.items)

    def done(self, histories: Sequence[History]) -> PolicyStanding:
        """Whether each script has come to its end, and what it returned."""
        x = torch.zeros(len(histories), histories[0].problem.items, dtype=torch.uint8)
        done = torch.zeros(len(histories), dtype=torch.bool)
        for i, history in enumerate(histories):
            _, found = self._replayed(history.setting, [y.tolist() for _, y in history.measured()])
            done[i] = found is not None
            x[i, found or []] = 1
        return PolicyStanding(x, done)

    def next_round(
        self, history: History, standing: PolicyStanding, place: int, *, generator: torch.Generator
    ) -> Tensor:
        """The script's next pools."""
        pools, _ = self._replayed(history.setting, [y.tolist() for _, y in history.measured()])
        return _matrix(pools, history.problem.items)

    def _replayed(self, setting: Setting, rounds: Sequence[list[float]]) -> tuple[Sequence[Pool], list[int] | None]:
        """The pools that come after some rounds, or the defectives where none do."""
        assert isinstance(setting.prior, Prior)
        rate = float(setting.prior.marginals(setting.items).mean())
        script = _repeated(SCRIPTS[self.name](setting.items, rate), self.lead)
        try:
            pools = next(script)
            for counts in rounds:
                pools = script.send([round(count) for count in counts])
        except StopIteration as end:
            return [], end.value
        return pools, None


def _repeated(script: Script, lead: int) -> Script:
    """A script whose pools are measured until one count is ahead by so many reports."""
    pools = next(script)
    while True:
        seen: list[Counter[int]] = [Counter() for _ in pools]
        todo = [i for i in range(len(pools)) for _ in range(lead)]
        while todo:
            for i, count in zip(todo, (yield [pools[i] for i in todo]), strict=True):
                seen[i][count] += 1
            todo = [i for i, votes in enumerate(seen) if _ahead(votes) < lead]
        counts = [min(max(votes.most_common(1)[0][0], 0), len(pool)) for votes, pool in zip(seen, pools, strict=True)]
        try:
            pools = script.send(counts)
        except StopIteration as end:
            return list(end.value)


def _ahead(votes: Counter[int]) -> int:
    first, *others = [number for _, number in votes.most_common(2)]
    return first - (others[0] if others else 0)


def _halved(groups: list[list[int]]) -> Script:
    """Measure groups, then left halves of those that are not settled: right halves follow."""
    counts = yield list(groups)
    defective, open_ = _settled(list(zip(groups, counts, strict=True)))
    while open_:
        halves = [(group[: len(group) // 2], group[len(group) // 2 :]) for group, _ in open_]
        counts = yield [left for left, _ in halves]
        parts: list[CountedGroup] = []
        for (left, right), (_, number), count in zip(halves, open_, counts, strict=True):
            inside = min(max(count, number - len(right)), number)  # what a wrong count would make impossible
            parts += [(left, inside), (right, number - inside)]
        more, open_ = _settled(parts)
        defective += more
    return defective


def _settled(groups: Sequence[CountedGroup]) -> tuple[list[int], list[CountedGroup]]:
    """The items of groups that are all defective, and the groups that are not settled."""
    defective = [item for group, number in groups if number >= len(group) for item in group]
    return defective, [(group, number) for group, number in groups if 0 < number < len(group)]


def _groups(items: int, size: int) -> list[list[int]]:
    """Groups of about that size, as equal as can be."""
    number = -(-items // size)
    return [list(range(items * i // number, items * (i + 1) // number)) for i in range(number)]


def _dorfman_size(rate: float, items: int) -> int:
    """The size with the fewest tests per item: 1/g + (1 - P(none or all) ) (g - 1)/g."""

    def tests(size: int) -> float:
        mixed = 1 - (1 - rate) ** size - rate**size
        return 1 / size + mixed * (size - 1) / size

    return min(range(1, items + 1), key=tests)


def _matrix(pools: Sequence[Pool], items: int) -> Tensor:
    matrix = torch.zeros(len(pools), items, dtype=torch.uint8)
    for row, pool in zip(matrix, pools, strict=True):
        row[list(pool)] = 1
    return matrix
