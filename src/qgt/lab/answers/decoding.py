"""Decoding a sheet of counts, in parts, so that a person can see how far it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float64
from torch import Tensor

from qgt.decoders.amp import AMP
from qgt.decoders.belief.decoder import BeliefPropagation
from qgt.decoders.contract import BoundDecoder, Decode, Decoder
from qgt.decoders.gamp import GAMP
from qgt.decoders.neural.decoder import NeuralDecoder
from qgt.decoders.registry import DECODERS
from qgt.decoders.results import Decoded, Status
from qgt.lab.answers.accounts import Account, accounts, numbers
from qgt.model.problem import Problem
from qgt.trust.confidence import BoundCalibrated, Calibrated, refuse_short_lists
from qgt.trust.diagnosis import Cause, Rescue, likely_causes, rescue
from qgt.trust.fit import FileFit, held_together

# Which decoder to take where nobody says: by the size of the problem, with the reason in words.

# Items up to which the search of `Certified` takes seconds. Beyond, in this order: what takes time in proportion to the
# transfers, what is exact where its relaxation is whole, and what takes any design.
SEARCHED = 5000
FOR_LARGE_PROBLEMS = ("belief", "linear_program", "gamp")


class DecoderChoice(NamedTuple):
    """A decoder's name, and why it was taken; nothing is said of the usual one."""

    name: str
    why: str = ""


def usual_decoder(problem: Problem) -> DecoderChoice:
    """`certified`, or for very many items the first of the others that supports the problem.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=2000, items=8000, weight=6, generator=g)
        >>> usual_decoder(qgt.Problem(design, qgt.Bernoulli(0.05))).name
        'belief'
    """
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


def with_settings(net: NeuralDecoder, options: Mapping[str, str]) -> NeuralDecoder:
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
PART, PART_ON_GPU = 128, 2**15  # instances decoded together: smaller parts lose speed, larger ones say nothing long
SWEEPS = 30  # of belief propagation, where it asks for causes: counts that fit take ten, others never settle
RESCUE = 5.0  # seconds for all impossible instances together


@dataclass(frozen=True, eq=False)
class DecodedSheet:
    """A sheet of counts, what the decoder made of it, and an account of every instance."""

    problem: Problem
    y: Float64[Tensor, "instances pools"]
    names: Sequence[str]
    result: Decoded
    accounts: Sequence[Account]
    fit: FileFit | None  # how well the file as a whole fits the model; None where that was not measured
    causes: Sequence[Cause] = ()  # what may be wrong, where it does not fit


def decode_sheet(
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
    names: Sequence[str] | None,
    decoder: Decoder | BoundCalibrated,
    *,
    defectives: int | None = None,
    calibrate: float | None = 10.0,
    cache: Path | None = None,
    device: str = "cpu",
    on_progress: OnInstancesDone | None = None,
) -> DecodedSheet:
    """Decode the counts of a sheet and account for every instance.

    Args:
        problem: The problem that the counts belong to.
        y: The counts, as `qgt.lab.sheets.counts.read_counts` reads them.
        names: The instances' names; None numbers them from 1.
        decoder: Any decoder that supports the problem; or, for many sheets of one problem, `Calibrated(...).bind` of
            it, whose simulations then run once for all of them.
        defectives: The number of defectives of every instance, where it is known and the decoder takes it.
        calibrate: Seconds to spend on simulated instances, by which confidence and fit are measured; None spends none
            and reports the decoder's own.
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
    if not isinstance(decoder, BoundCalibrated):
        measured = calibrate is not None and defectives is None
        if not measured or bool(y.isnan().any()):  # before anything is simulated
            refuse_short_lists(decoder, "where counts are missing" if measured else "without simulations")
    bound = _bound(problem, decoder, defectives, calibrate, cache)
    parts, done = [], 0
    for part in y.split(PART if device == "cpu" else PART_ON_GPU):
        here = part.to(device)
        told = isinstance(bound, BoundDecoder) and defectives is not None
        found = bound(here, defectives=defectives) if told else bound(here)  # type: ignore[call-arg]
        parts.append(found.cpu())
        done += len(part)
        if on_progress is not None:
            on_progress(done, len(y))
    result = Decoded.joined(parts)
    names = numbers(len(y)) if names is None else names
    fit, fits, causes = _file_fit(problem, y, result, bound)
    rescues = _rescues(problem, y, result)
    made = accounts(problem, y, names, result, rescues=rescues, file_fits=fits)
    return DecodedSheet(problem, y, names, result, made, fit, causes)


def _bound(
    problem: Problem,
    decoder: Decoder | BoundCalibrated,
    defectives: int | None,
    calibrate: float | None,
    cache: Path | None,
) -> Decode:
    """The decoder bound to the problem, and calibrated where that is asked for."""
    if isinstance(decoder, BoundCalibrated):
        if decoder.problem is not problem and decoder.problem.fingerprint != problem.fingerprint:
            raise ValueError("decoder is bound to another problem: bind it to the one that the counts belong to.")
        if defectives is not None:
            raise ValueError(
                f"defectives={defectives} was given, but a calibrated decoder cannot use it: leave it out."
            )
        return decoder
    bound = decoder.bind(problem)
    if defectives is not None and not (isinstance(bound, BoundDecoder) and bound.takes_defectives):
        raise ValueError(f"defectives={defectives} was given, but this decoder cannot use it: leave it out.")
    if calibrate is None or defectives is not None:  # a decoder that is told K is another one than was simulated
        return bound
    return Calibrated(decoder, seconds=calibrate, cache=cache).bind(problem)


def _file_fit(
    problem: Problem, y: Tensor, result: Decoded, bound: Decode
) -> tuple[FileFit | None, bool, Sequence[Cause]]:
    """How well the possible instances fit together, whether any is to be trusted, and what may be wrong if not."""
    possible = result.status != Status.INFEASIBLE
    own = result.evidence.fit
    if not isinstance(bound, BoundCalibrated) or own is None:
        return None, True, ()
    fit, fits = held_together(problem, y, result.x, own, possible, bound.learned().reference)
    if fit is None or not fit.suspect:
        return fit, fits, ()
    quick = (BeliefPropagation(iterations=SWEEPS), GAMP(), AMP()) if problem.design.sparse else (GAMP(), AMP())
    decoder = next((one for one in quick if one.supports(problem) is None), None)
    return fit, fits, likely_causes(problem, y, decoder, calls=result.x)


def _rescues(problem: Problem, y: Tensor, result: Decoded) -> dict[int, Rescue]:
    """For impossible instances, the counts that must be wrong; as many as there is time for."""
    failed = (result.status == Status.INFEASIBLE).nonzero().flatten().tolist()
    seconds = min(1.0, RESCUE / max(1, len(failed)))
    found = {i: rescue(problem, y[i], seconds=seconds) for i in failed if seconds > 0.01}
    return {i: one for i, one in found.items() if one is not None}
