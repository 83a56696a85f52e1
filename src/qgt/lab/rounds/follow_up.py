"""What to test next, for people: which instances are not certain yet, their pools, and how many tests may remain."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from qgt.decoders.certificate_file import certificate_bytes
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.results import Decoded, Status
from qgt.files.tables import table_bytes
from qgt.lab.answers.accounts import Account, accounts
from qgt.lab.answers.outputs import HTML, account_products, accounts_page
from qgt.lab.rounds.files import InstancePools, Round, counts_before
from qgt.lab.sheets.samples import Samples
from qgt.lab.verdicts import Verdict
from qgt.lab.wording import quoted
from qgt.model.problem import Problem, problem_files
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


# What decoded rounds leave behind: the files of a sheet, and the proofs of every plate with all its pools.
#
# After a later round every instance has pools of its own, and so a problem of its own. A proof belongs to one problem
# and to its counts. So the proofs of rounds are an archive with a folder for each problem: the problem, its counts, and
# the proofs, as `qgt check` reads them. Proofs are made by decoding once more: the search that rates answers keeps
# none.

PROOFS_OF_ROUNDS = "proofs.zip"
ROUND_PROOF_ODDS = 100.0  # answers that come close are at least 1/odds as probable
ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)  # of the files in an archive: equal rounds give equal archives
README = """Proofs of a run with several rounds, checked without the solver that made them.

Each folder holds a problem with the pools of all rounds, its counts and the proofs. In a folder:

    qgt check counts.csv --problem problem.toml --certificate proofs.safetensors

"""


def round_facts(found: DecodedRounds, rounds: int, decoder: str, fingerprint: str) -> dict[str, object]:
    """Decoded rounds as plain data, for JSON."""
    return {
        "decoder": decoder,
        "instances": len(found.accounts),
        "rounds": rounds,
        "tests": sum(history.problem.pools for history in found.histories),
        "fingerprint": fingerprint,
        "results": [
            {**one.plain, "rounds": list(history.rounds)}
            for one, history in zip(found.accounts, found.histories, strict=True)
        ],
    }


def round_products(
    found: DecodedRounds,
    *,
    title: str,
    plain: Mapping[str, object],
    facts: Mapping[str, object],
    seconds: float,
    samples: Samples | None = None,
) -> dict[str, bytes]:
    """The files of decoded rounds by their names: those of a sheet, with an archive of proofs.

    Args:
        found: What was decoded.
        title: The page's title.
        plain: What the JSON file holds, see `round_facts`.
        facts: What stands at the foot of the page.
        seconds: Time to prove each instance.
        samples: Where the samples stand, if that is known.
    """
    made = account_products(found.accounts, found.first.design, plain, samples)
    made[HTML] = rounds_page(found, title=title, facts=facts, samples=samples).encode()
    if (proofs := round_proofs(found, seconds=seconds)) is not None:
        made[PROOFS_OF_ROUNDS] = proofs
    return made


def rounds_page(
    found: DecodedRounds, *, title: str, facts: Mapping[str, object], samples: Samples | None = None
) -> str:
    """A page about decoded rounds, like that about a sheet."""
    measured = {name: (one.problem, one.y) for name, one in zip(found.names, found.histories, strict=True)}
    first, most = found.histories[0].rounds[0], max(len(one.rounds) for one in found.histories)
    later = sum(sum(one.rounds[1:]) for one in found.histories)
    where = f"counted in {first} pools"
    if later:
        where += f" and {later} more in {'a later round' if most == 2 else f'{most - 1} later rounds'}"
    return accounts_page(found.accounts, measured, where=where, title=title, facts=facts, samples=samples)


def round_proofs(found: DecodedRounds, *, seconds: float) -> bytes | None:
    """An archive of proofs; None where nothing can be proved, as the certified decoder does not take the prior."""
    groups: dict[int, list[int]] = {}
    for place, history in enumerate(found.histories):  # instances without later pools share one problem
        groups.setdefault(id(history.problem), []).append(place)
    if any(Certified().supports(found.histories[places[0]].problem) is not None for places in groups.values()):
        return None
    stream, words = io.BytesIO(), README
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, places in enumerate(groups.values(), 1):
            names = [found.names[place] for place in places]
            for name, content in _proved([found.histories[place] for place in places], names, seconds).items():
                archive.writestr(zipfile.ZipInfo(f"{number}/{name}", ARCHIVE_DATE), content)
            words += f"Folder {number}: {', '.join(map(quoted, names))}\n"
        archive.writestr(zipfile.ZipInfo("README.txt", ARCHIVE_DATE), words)
    return stream.getvalue()


def _proved(histories: Sequence[History], names: Sequence[str], seconds: float) -> dict[str, bytes]:
    """The files of one problem: what it is, the counts, and the proofs."""
    problem, y = histories[0].problem, torch.stack([history.y for history in histories])
    result = Certified(odds=ROUND_PROOF_ODDS, time_limit=seconds).bind(problem)(y)
    pools = problem.design.pool_names
    counts = table_bytes(y.tolist(), row_names=names, column_names=pools, corner="instance")
    proofs = certificate_bytes(problem, y, result)
    return {"counts.csv": counts, **problem_files(problem), "proofs.safetensors": proofs}
