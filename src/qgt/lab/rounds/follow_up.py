"""What to test next, for people: which instances are not certain yet, their pools, and how many tests may remain."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator

from qgt.lab.answers.accounts import Account
from qgt.lab.answers.decoding import DecodedSheet
from qgt.lab.rounds.files import InstancePools, Round, counts_before
from qgt.lab.verdicts import Verdict
from qgt.rounds.choosing import NextPools, next_pools
from qgt.rounds.history import History
from qgt.trust.diagnosis import Rescue


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
        pools = [
            (f"R{number}-{i}", tuple(items[item] for item in members)) for i, members in enumerate(one.pools.members, 1)
        ]
        instances.append(InstancePools(one.account.name, counts_before(history.y), tuple(pools)))
    categories = decoded.problem.reported_categories
    return Round(number, design, before[-1].fingerprint if before else "", tuple(instances), categories)


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


def used_up(items: Sequence[str], names: Sequence[str], pools: int) -> list[int]:
    """How many pools each item may be in, none for those that are used up."""
    gone, known = set(names), set(items)
    if strange := sorted(gone - known):
        raise ValueError(f"used_up={strange[0]!r} is not an item of the design: use its names, such as {items[0]!r}.")
    return [0 if item in gone else pools for item in items]
