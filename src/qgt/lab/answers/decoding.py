"""Decoding a sheet of counts, of one round or with all its later rounds: answers, and how far to trust each of them.

A sheet of one round is decoded by any decoder, in parts, so that a person can see how far it is. All its instances have
the same problem, so simulations of that problem measure what an answer is worth (`BySimulation`). After a later round
every instance has pools of its own, so nothing is simulated: longer lists of answers replace that (`ByLongerLists`).
Whatever follows from the answers is the same for both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from qgt.decoders.contract import BoundDecoder, Decode, Decoder
from qgt.decoders.registry import DECODERS
from qgt.decoders.results import Decoded, Status
from qgt.decoders.threads import in_own_thread
from qgt.lab.answers.accounts import Account, accounts, numbers
from qgt.model.problem import Counts, Problem
from qgt.rounds.history import History, by_problem
from qgt.rounds.stopping import Settle, history_fit
from qgt.trust.confidence import BoundCalibrated, Calibrated, prior_rates, refuse_short_lists, with_values
from qgt.trust.diagnosis import Cause, Rescue, likely_causes, load_causes, rescue, second_look
from qgt.trust.fit import FileFit, Reference, held_together

if TYPE_CHECKING:
    from qgt.decoders.neural.decoder import NeuralDecoder

# Which decoder to take where nobody says: by the size of the problem, with the reason in words.

# Items up to which the search of `Certified` takes seconds. Beyond, in this order: what takes time in proportion to the
# transfers, what is exact where its relaxation is whole, and what takes any design.
SEARCHED = 5000
FOR_LARGE_PROBLEMS = ("belief", "linear_program", "gamp")
SECONDS_PER_PLATE = 5.0  # of search, where nobody says otherwise
LIMITED_DECODERS = ("certified", "exact")  # those that search until a time limit


class DecoderChoice(NamedTuple):
    """A decoder's name, and why it was taken; nothing is said of the usual one."""

    name: str
    why: str = ""


def usual_decoder(problem: Problem) -> DecoderChoice:
    """`certified`; `load_posterior` for amounts; for very many items the first of the others that takes the problem.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=2000, items=8000, weight=6, generator=g)
        >>> usual_decoder(qgt.Problem(design, qgt.Bernoulli(0.05))).name
        'belief'
    """
    if problem.loads is not None:
        return DecoderChoice("load_posterior")
    if problem.items <= SEARCHED:
        return DecoderChoice("certified")
    for name in FOR_LARGE_PROBLEMS if problem.design.sparse else FOR_LARGE_PROBLEMS[1:]:
        if DECODERS[name]().supports(problem) is None:
            return DecoderChoice(
                name,
                f"Decoded by {name}, not by certified: a search among {problem.items:,} items would take long, and "
                "nothing is proved here. --decoder certified searches.",
            )
    return DecoderChoice("certified")


# A decoder's options as a command line or a form gives them: `damping=0.5`; `make_decoder` reads the values.


def parse_settings(decoder: str, settings: Sequence[str]) -> dict[str, str]:
    """Names and texts from `name=value` or `decoder.name=value`.

    Example:
        >>> parse_settings("gamp", ["damping=0.5", "gamp.iterations=50"])
        {'damping': '0.5', 'iterations': '50'}
    """
    found: dict[str, str] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        owner, _, name = key.strip().rpartition(".")
        if not equals or not name:
            raise ValueError(f"set={setting!r} is not valid: give name=value, such as damping=0.5.")
        if owner not in ("", decoder):
            raise ValueError(f"set={setting!r} is for {owner}, but the decoder is {decoder}: choose one.")
        if name in found:
            raise ValueError(f"set={setting!r} gives {name} twice: give it once.")
        found[name] = text.strip()
    return found


def with_settings(net: "NeuralDecoder", options: Mapping[str, str]) -> "NeuralDecoder":
    """A network with the one option that it may have."""
    for name, text in options.items():
        if name != "rounds":
            raise ValueError(f"{name}={text} has no meaning for a network: leave it out, or give rounds.")
        if not text.isdecimal():
            raise ValueError(f"rounds={text!r} is not valid: give a whole number.")
        net = net.with_rounds(int(text))
    return net


# Decoding.

OnInstancesDone = Callable[[int, int], None]  # instances done, and of how many
PART, PART_ON_GPU = 512, 2**15  # instances decoded together: smaller parts lose speed, larger ones say nothing long
SWEEPS = 30  # of belief propagation, where it asks for causes: counts that fit take ten, others never settle
CAUSE_PLATES = 40  # of copies or categories that are asked for causes, the first of the file
CAUSE_SECONDS, CAUSE_ITEMS = 0.05, 500  # of a search for each of them, and the items up to which there is one
RESCUE = 5.0  # seconds for all impossible instances together


@dataclass(frozen=True, eq=False)
class DecodedSheet:
    """A sheet of counts with all its rounds, what the decoder made of it, and an account of every instance.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        >>> sheet = decode_sheet(problem, y, ["plate 7"], qgt.Certified(), calibrate=None)
        >>> sheet.accounts[0].positives, sheet.rounds
        (('I3',), 1)
    """

    problem: Problem  # of the first round, whose pools all instances share
    histories: Sequence[History]  # the pools and counts of each instance, of all its rounds
    names: Sequence[str]
    result: Decoded
    accounts: Sequence[Account]
    fit: FileFit | None  # how well the first round's counts fit the model as a file; None where that was not measured
    causes: Sequence[Cause] = ()  # what may be wrong, where they do not fit
    rescues: Mapping[int, Rescue] = field(default_factory=dict)  # of impossible instances: counts that must be wrong
    rounds: int = 1  # of the sheet; an instance may have had no pools in a later one
    checked: "ConfidenceCheck | None" = None  # by which simulations, where more of them are to follow
    notes: Sequence[str] = ()  # what was assumed when the sheet was read

    @property
    def y(self) -> Counts:
        """The counts of the first round."""
        return first_counts(self.problem, self.histories)


class ConfidenceCheck(NamedTuple):
    """How far simulations have checked the confidence, where more of them are to follow."""

    simulated: int  # instances
    certain: bool  # whether they show that answers called certain are right
    lists: bool  # whether longer lists may show that of an answer instead

    @property
    def words(self) -> str:
        """That in sentences.

        Example:
            >>> ConfidenceCheck(120, certain=False, lists=False).words
            'Confidence was checked on 120 simulated plates so far: too few to call an answer certain.'
        """
        said = f"Confidence was checked on {self.simulated:,} simulated plates so far"
        if self.certain:
            return f"{said}: enough to call an answer certain."
        if self.lists:
            return f"{said}: too few to call an answer certain, except where a longer list of answers shows it."
        return f"{said}: too few to call an answer certain."


def first_counts(problem: Problem, histories: Sequence[History]) -> Counts:
    """The counts of the first round, whose pools all instances share."""
    rows = [history.y[: problem.pools] for history in histories]
    return torch.stack(rows) if rows else torch.zeros(0, *problem.report_shape, dtype=torch.float64)


def decode_sheet(
    problem: Problem,
    y: Counts,
    names: Sequence[str] | None,
    decoder: Decoder | BoundCalibrated,
    *,
    defectives: int | None = None,
    calibrate: float | None = 10.0,
    at_once: float | None = None,
    cache: Path | None = None,
    device: str = "cpu",
    on_progress: OnInstancesDone | None = None,
) -> DecodedSheet:
    """Decode the counts of a sheet of one round and account for every instance.

    Args:
        problem: The problem that the counts belong to.
        y: The counts, as `qgt.lab.sheets.counts.read_counts` reads them.
        names: The instances' names; None numbers them from 1.
        decoder: Any decoder that supports the problem; or, for many sheets of one problem, `Calibrated(...).bind` of
            it, whose simulations then run once for all of them.
        defectives: The number of defectives of every instance, where it is known and the decoder takes it.
        calibrate: Seconds to spend on simulated instances, by which confidence and fit are measured; None spends none
            and reports the decoder's own.
        at_once: Seconds of them to spend on this sheet; the next one of the problem continues, from the cache or with
            the same bound decoder. None spends all of them now.
        cache: A folder that keeps what those simulations taught, for the next sheet of the problem; None keeps nothing.
        device: Where to decode; the result is on the CPU.
        on_progress: Called after each part with the number of instances done, and of all.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
        >>> sheet = decode_sheet(problem, y, ["a", "b"], qgt.Certified())
        >>> [(one.name, str(one.verdict)) for one in sheet.accounts]
        [('a', 'certain'), ('b', 'impossible')]
    """
    measured = isinstance(decoder, BoundCalibrated) or (calibrate is not None and defectives is None)
    if not measured or bool(y.isnan().any()):  # before anything is simulated
        own = decoder.config.decoder if isinstance(decoder, BoundCalibrated) else decoder
        refuse_short_lists(own, "where counts are missing" if measured else "without simulations")
    decode, trust = _bound(problem, decoder, defectives, calibrate, at_once, cache)
    way = BySimulation(decode, trust, defectives, device, on_progress)
    histories = [History.start(problem, row) for row in y]
    # What follows from the answers works on tensors as small as theirs.
    return in_own_thread(lambda: decode_history(problem, histories, names, way))


def decode_history(
    problem: Problem,
    histories: Sequence[History],
    names: Sequence[str] | None,
    way: "BySimulation | ByLongerLists",
    *,
    rounds: int = 1,
) -> DecodedSheet:
    """The way of every sheet: answers, the confidence in each and its fit, the fit of all, and what may be wrong.

    The counts of the first round, whose pools all instances share, are held against the model as a file: where pools
    were mixed up in all instances, a single one may look sure and be wrong.

    Args:
        problem: The first round's problem.
        histories: The instances, all with that first round.
        names: Their names; None numbers them from 1.
        way: What decodes them, and tells how far to trust the answers.
        rounds: How many rounds the sheet has.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> first = History.start(problem, torch.tensor([1.0, 1.0], dtype=torch.float64))
        >>> later = first.after(torch.tensor([[0, 1, 0]], dtype=torch.uint8), torch.tensor([1.0]).double())
        >>> way = ByLongerLists(Settle(confidence=0.99), torch.Generator().manual_seed(0))
        >>> found = decode_history(problem, [first, later], ["a", "b"], way, rounds=2)
        >>> [str(one.verdict) for one in found.accounts]
        ['unsure', 'certain']
    """
    names, y = _named(names, len(histories)), first_counts(problem, histories)
    result, reference = way.answers(problem, histories)
    fit, trusted = _file_fit(problem, y, result, reference)
    rescues = _rescues(histories, result)
    made = _accounts(histories, names, result, rescues, trusted)
    causes: Sequence[Cause] = ()
    checked = None
    if isinstance(way, BySimulation):
        causes, checked = _causes(problem, y, result, fit), _checked(way.trust)
    return DecodedSheet(problem, histories, names, result, made, fit, causes, rescues, rounds, checked)


def _named(names: Sequence[str] | None, instances: int) -> Sequence[str]:
    if names is not None and len(names) != instances:
        raise ValueError(f"{len(names)} names and {instances} rows of counts: give one of each.")
    return numbers(instances) if names is None else names


# One round: simulations of the problem tell what an answer is worth.


@dataclass(frozen=True, eq=False)
class BySimulation:
    """A decoder for the problem of a sheet, and the simulations that measure what its answers are worth."""

    decode: Decode
    trust: BoundCalibrated | None  # None where nothing is simulated: the confidence is then the decoder's own
    defectives: int | None = None
    device: str = "cpu"
    on_progress: OnInstancesDone | None = None

    def answers(self, problem: Problem, histories: Sequence[History]) -> tuple[Decoded, Reference | None]:
        """Answers, part by part, with their confidence and fit; and what instances of the model look like."""
        y, parts, done = first_counts(problem, histories), [], 0
        if self.trust is not None:
            self.trust.go_on(self.device)  # once for all parts, so that all are judged alike
        for part in y.split(PART if self.device == "cpu" else PART_ON_GPU):
            here = part.to(self.device)
            found = self._decoded(here)
            parts.append((found if self.trust is None else self.trust.judged(here, found)).cpu())
            done += len(part)
            if self.on_progress is not None:
                self.on_progress(done, len(y))
        return Decoded.joined(parts), None if self.trust is None else self.trust.learned().reference

    def _decoded(self, y: Tensor) -> Decoded:
        if isinstance(self.decode, BoundDecoder) and self.defectives is not None:
            return self.decode(y, defectives=self.defectives)
        return self.decode(y)


def _checked(trust: BoundCalibrated | None) -> ConfidenceCheck | None:
    """How far simulations have checked the confidence; None where there are to be no more, or none at all."""
    if trust is None or (learned := trust.learned()).done(trust.config):
        return None
    return ConfidenceCheck(learned.simulated, learned.supports_certain, learned.listed is not None)


def _bound(
    problem: Problem,
    decoder: Decoder | BoundCalibrated,
    defectives: int | None,
    calibrate: float | None,
    at_once: float | None,
    cache: Path | None,
) -> tuple[Decode, BoundCalibrated | None]:
    """The decoder bound to the problem, and what measures its answers where that is asked for."""
    if isinstance(decoder, BoundCalibrated):
        if decoder.problem is not problem and decoder.problem.fingerprint != problem.fingerprint:
            raise ValueError("decoder is bound to another problem: bind it to the one that the counts belong to.")
        if defectives is not None:
            raise ValueError(
                f"defectives={defectives} was given, but a calibrated decoder cannot use it: leave it out."
            )
        return decoder.decode, decoder
    bound = decoder.bind(problem)
    if defectives is not None and not (isinstance(bound, BoundDecoder) and bound.takes_defectives):
        raise ValueError(f"defectives={defectives} was given, but this decoder cannot use it: leave it out.")
    if calibrate is None or defectives is not None:  # a decoder that is told K is another one than was simulated
        return bound, None
    return bound, BoundCalibrated(Calibrated(decoder, seconds=calibrate, cache=cache, at_once=at_once), problem, bound)


# Later rounds: every instance has a problem of its own, and longer lists tell what an answer is worth.


@dataclass(frozen=True, eq=False)
class ByLongerLists:
    """What decodes instances with pools of their own; the generator is for their fits."""

    settle: Settle
    generator: Generator

    def answers(self, problem: Problem, histories: Sequence[History]) -> tuple[Decoded, Reference | None]:
        """Answers with their confidence and fit over all rounds; and what instances of the first round look like."""
        result = self.settle(histories)
        fits, sound = _fits(histories, result, self.generator)
        marginals = _with_wrong_counts(result, sound, problem)
        evidence = replace(result.evidence, fit=fits, confidence=_bounds(result) * sound, marginals=marginals)
        evidence = with_values(problem, result, evidence)
        alone = len(histories) < 2  # then the instance's own fit is that of the file
        return replace(result, evidence=evidence), None if alone else Reference.of(problem, generator=self.generator)


def _fits(histories: Sequence[History], result: Decoded, generator: Generator) -> tuple[Tensor, Tensor]:
    """How well all counts of each instance fit its answer, and the probability that none of them is wrong."""
    found = [(torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64))] * len(histories)
    for i, history in enumerate(histories):
        if int(result.status[i]) != Status.INFEASIBLE:
            fit = torch.tensor([history_fit(history, result.values[i], generator=generator)], dtype=torch.float64)
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


# What follows from the answers.


def _file_fit(problem: Problem, y: Tensor, result: Decoded, reference: Reference | None) -> tuple[FileFit | None, bool]:
    """How well the possible instances fit together, and whether any answer is to be trusted."""
    own, possible = result.evidence.fit, result.status != Status.INFEASIBLE
    if reference is None or own is None:
        return None, True
    return held_together(problem, y, result.values, own, possible, reference)


def _causes(problem: Problem, y: Tensor, result: Decoded, fit: FileFit | None) -> Sequence[Cause]:
    """What may be wrong with a file that does not fit."""
    if fit is None or not fit.suspect:
        return ()
    if problem.loads is not None:
        return load_causes(problem, y)
    if problem.values is not None:
        y, result = y[:CAUSE_PLATES], result.pick(torch.arange(min(len(y), CAUSE_PLATES)))
    decoder = next((one for one in _quick(problem) if one.supports(problem) is None), None)
    return likely_causes(problem, y, decoder, calls=result.x, usually_off=fit.expected)


def _quick(problem: Problem) -> Sequence[Decoder]:
    """Decoders of a moment, the best first: a file is decoded several times to weigh what may be wrong with it."""
    from qgt.decoders.amp import AMP
    from qgt.decoders.belief.decoder import BeliefPropagation
    from qgt.decoders.certified.decoder import Certified
    from qgt.decoders.gamp import GAMP

    belief = BeliefPropagation(iterations=SWEEPS)
    if problem.values is not None:
        search = Certified(odds=1.0, time_limit=CAUSE_SECONDS, certificates=False)
        return (search, belief) if problem.items <= CAUSE_ITEMS else (belief,)
    return (belief, GAMP(), AMP()) if problem.design.sparse else (GAMP(), AMP())


def _rescues(histories: Sequence[History], result: Decoded) -> dict[int, Rescue]:
    """For impossible instances, the counts that must be wrong; as many as there is time for."""
    failed = (result.status == Status.INFEASIBLE).nonzero().flatten().tolist()
    seconds = min(1.0, RESCUE / max(1, len(failed)))
    some = failed if seconds > 0.01 else ()
    found = {i: rescue(histories[i].problem, histories[i].y, seconds=seconds) for i in some}
    return {i: one for i, one in found.items() if one is not None}


def _accounts(
    histories: Sequence[History],
    names: Sequence[str],
    result: Decoded,
    rescues: Mapping[int, Rescue],
    trusted: bool,
) -> list[Account]:
    """The account of every instance, those whose problems are the same together."""
    made: dict[int, Account] = {}
    together = by_problem(histories)
    for places in together:
        own = result if len(together) == 1 else result.pick(torch.tensor(places))
        y = torch.stack([histories[place].y for place in places])
        lost = {row: rescues[place] for row, place in enumerate(places) if place in rescues}
        called = [names[place] for place in places]
        found = accounts(histories[places[0]].problem, y, called, own, rescues=lost, file_fits=trusted)
        made.update(zip(places, found, strict=True))
    return [made[place] for place in range(len(histories))]
