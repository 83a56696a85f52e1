"""What to test next, for people: which instances are not certain yet, their pools, and how many tests may remain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from qgt.decoders.results import Decoded, Status
from qgt.lab.accounts import Account, accounts
from qgt.lab.round_files import InstancePools, Round, counts_before
from qgt.lab.verdicts import Verdict
from qgt.model.problem import Problem
from qgt.rounds.choosing import NextPools, next_pools
from qgt.rounds.history import History
from qgt.rounds.stopping import Settle, history_fit
from qgt.trust.confidence import prior_rates
from qgt.trust.diagnosis import rescue, second_look
from qgt.trust.fit import FileFit, Reference, held_together


@dataclass(frozen=True, eq=False)
class DecodedRounds:
    """Instances with all their rounds, decoded."""

    histories: Sequence[History]
    names: Sequence[str]
    result: Decoded
    accounts: Sequence[Account]
    first: Problem  # of the first round
    fit: FileFit | None = None  # how well the first round's counts fit together; None for a single instance


def decode_rounds(
    histories: Sequence[History], names: Sequence[str], settle: Settle, *, first: Problem, generator: Generator
) -> DecodedRounds:
    """Decode instances with all their rounds, and account for each; confidence and fit count all of them.

    The counts of the first round, whose pools all instances share, are held against the model as a file, too: where
    pools were mixed up in all of them, a single instance may look sure and be wrong.

    Args:
        histories: The instances, all of the same first round.
        names: Their names.
        settle: What decodes them.
        first: The first round's problem.
        generator: For the fits.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> first = History.start(problem, torch.tensor([1.0, 1.0], dtype=torch.float64))
        >>> later = first.after(torch.tensor([[0, 1, 0]], dtype=torch.uint8), torch.tensor([1.0]).double())
        >>> g = torch.Generator().manual_seed(0)
        >>> found = decode_rounds([first, later], ["a", "b"], Settle(confidence=0.99), first=problem, generator=g)
        >>> [str(one.verdict) for one in found.accounts]
        ['unsure', 'certain']
    """
    result = settle(histories)
    fits, sound = _fits(histories, result, generator)
    marginals = _with_wrong_counts(result, sound, first)
    evidence = replace(result.evidence, fit=fits, confidence=_bounds(result) * sound, marginals=marginals)
    result = replace(result, evidence=evidence)
    fit, fits_together = _file_fit(first, histories, result, generator)
    made = []
    for i, (history, name) in enumerate(zip(histories, names, strict=True)):
        own = result.pick(torch.tensor([i]))
        lost = rescue(history.problem, history.y) if int(own.status[0]) == Status.INFEASIBLE else None
        rescues = {} if lost is None else {0: lost}
        made += accounts(history.problem, history.y[None], [name], own, rescues=rescues, file_fits=fits_together)
    return DecodedRounds(histories, names, result, made, first, fit)


def _fits(histories: Sequence[History], result: Decoded, generator: Generator) -> tuple[Tensor, Tensor]:
    """How well all counts of each instance fit its answer, and the probability that none of them is wrong."""
    found = [(torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64))] * len(histories)
    for i, history in enumerate(histories):
        if int(result.status[i]) != Status.INFEASIBLE:
            fit = torch.tensor([history_fit(history, result.x[i], generator=generator)], dtype=torch.float64)
            found[i] = second_look(history.problem, history.y[None], result.pick(torch.tensor([i])), fit)
    fits, sound = zip(*found, strict=True)
    return torch.cat(fits), torch.cat(sound)


def _bounds(result: Decoded) -> Float64[Tensor, " instances"]:
    """The confidence; where a list is not complete, the answer's weight in it: what an account calls a bound."""
    confidence, answers, complete = result.evidence.confidence, result.evidence.alternatives, result.evidence.complete
    assert confidence is not None and answers is not None and complete is not None  # as `Settle` gives them
    listed = torch.zeros_like(confidence).index_add_(0, answers.spans.owner, answers.probability)
    return torch.where(complete, confidence, (confidence / listed).clamp(max=1.0))


def _with_wrong_counts(result: Decoded, sound: Tensor, first: Problem) -> Float64[Tensor, "instances items"] | None:
    """The probability that each item is defective, where a count may be wrong: nothing is known of the item then."""
    marginals, rates = result.evidence.marginals, prior_rates(first)
    if marginals is None or rates is None:
        return None
    return sound[:, None] * marginals + (1 - sound)[:, None] * rates


def _file_fit(
    first: Problem, histories: Sequence[History], result: Decoded, generator: Generator
) -> tuple[FileFit | None, bool]:
    """How well the first round's counts fit together, and whether any answer is to be trusted."""
    if len(histories) < 2:
        return None, True  # its own fit says it all
    y = torch.stack([history.y[: first.pools] for history in histories])
    own, possible = result.evidence.fit, result.status != Status.INFEASIBLE
    assert own is not None  # measured before
    return held_together(first, y, result.x, own, possible, Reference.of(first, generator=generator))


@dataclass(frozen=True, eq=False)
class Proposed:
    """The pools proposed for one instance, and why."""

    account: Account
    pools: NextPools
    repeats: tuple[str, ...]  # pools that are measured again, where the counts do not fit


def propose(
    decoded: DecodedRounds,
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
        again = _again(history, account)[:pools]
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


def _again(history: History, account: Account) -> list[int]:
    """The pools to measure again: those whose counts must be wrong, or those that are off, the farthest first."""
    problem, names = history.problem, history.problem.design.pool_names
    if account.verdict is Verdict.IMPOSSIBLE:
        lost = rescue(problem, history.y)
        wrong = set(lost.wrong) if lost is not None else set(names)
        return [pool for pool, name in enumerate(names) if name in wrong]
    expected = {one.pool: abs(one.off) for one in account.residuals}
    return sorted(
        (pool for pool, name in enumerate(names) if name in expected), key=lambda pool: -expected[names[pool]]
    )


def as_round(decoded: DecodedRounds, proposed: Sequence[Proposed], before: Sequence[Round], design: str) -> Round:
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
    return Round(number, design, before[-1].fingerprint if before else "", tuple(instances))


def in_words(one: Proposed) -> str:
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
