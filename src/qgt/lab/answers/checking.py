"""A certificate held against counts and calls: which claims hold, instance by instance, in words.

A proof is about the answers that the certificate stores. Whether the calls in somebody's file are those answers is
another question, and the one that matters to whoever acts on the calls: a file can be edited, sorted or of another day.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.decoders.checker import CHECKER_TOLERANCE, check_claims, claims_hold
from qgt.decoders.results import Decoded, Status
from qgt.lab.answers.accounts import numbers
from qgt.lab.wording import NAMED_AT_MOST, in_one_phrase, percent, quoted
from qgt.model.problem import Counts, Problem

UNPROVED = "the certificate claims nothing: time ran out before anything was proved"
FALSE = "the certificate does not show what it claims"


@dataclass(frozen=True)
class Checked:
    """What a certificate shows of one instance, and whether the calls are what it is about."""

    name: str
    optimal: bool  # the answer is the most probable one
    listed: bool  # and every answer that comes close is listed
    impossible: bool  # no answer explains the counts
    holds: bool  # all that the certificate claims is shown
    reason: str  # why it does not hold, or why the calls are not what it is about; empty where all is well
    calls: bool | None = None  # whether the calls are the answer proved; None where there are none

    @property
    def fine(self) -> bool:
        """Whether the proof holds, and the calls, if there are some, are what it is about."""
        return self.holds and self.calls is not False


def check_sheet(
    problem: Problem,
    y: Counts,
    names: Sequence[str] | None,
    result: Decoded,
    calls: Float64[Tensor, "instances items"] | None = None,
) -> list[Checked]:
    """Check a certificate, and calls against it.

    Args:
        problem: What the counts belong to.
        y: The counts.
        names: The instances' names; None numbers them from 1.
        result: What `qgt.load_certificate` read.
        calls: 1, 0, copies or a category by its number, or NaN where a sample is not called: only samples that are
            called can differ.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
        >>> calls = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
        >>> made = check_sheet(problem, y, ["a", "b"], qgt.Certified().bind(problem)(y), calls)
        >>> [one.fine for one in made], made[0].reason
        ([False, True], 'the calls are another answer, less probable than the proved one: 10 % of those listed')
    """
    claims = check_claims(problem, y, result)
    holds = claims_hold(claims, result)
    made = []
    for i, name in enumerate(numbers(len(y)) if names is None else names):
        reason = "" if holds[i] else _why_not(result, i)
        differ = "" if calls is None else _differing(problem, result, i, calls[i])
        optimal, listed, impossible = (bool(part[i]) for part in (claims.optimal, claims.listed, claims.impossible))
        why, same = "; ".join(filter(None, (reason, differ))), None if calls is None else not differ
        made.append(Checked(name, optimal, listed, impossible, bool(holds[i]), why, same))
    return made


def _why_not(result: Decoded, i: int) -> str:
    """Why an instance's proof does not hold."""
    return FALSE if int(result.status[i]) in (Status.PROVED, Status.INFEASIBLE) else UNPROVED


def _differing(problem: Problem, result: Decoded, i: int, calls: Tensor) -> str:
    """How an instance's calls differ from the answer that the certificate is about; empty where they do not."""
    called, answer = ~calls.isnan(), result.x[i]
    if int(result.status[i]) == Status.INFEASIBLE:
        return "samples are called, but no answer explains the counts" if bool(called.any()) else ""
    other = (calls != answer) & called
    if not bool(other.any()):
        return ""
    answers = result.evidence.alternatives
    near = None if answers is None else answers.of_instance(i)
    same = torch.zeros(0) if near is None else (near.x == calls).all(1).nonzero().flatten()
    if near is not None and len(same):
        share, log_joint = percent(float(near.probability[int(same[0])])), near.log_joint
        itself = (near.x == answer).all(1).nonzero().flatten()
        tied = len(itself) > 0 and float(log_joint[itself[0]] - log_joint[same[0]]) <= CHECKER_TOLERANCE
        how = "as probable as the proved one" if tied else "less probable than the proved one"
        return f"the calls are another answer, {how}: {share} of those listed"
    return f"the calls differ from the proved answer in {_items(problem, other)}"


def _items(problem: Problem, which: Tensor) -> str:
    names = [problem.design.item_names[j] for j in which.nonzero().flatten().tolist()]
    return in_one_phrase(map(quoted, names), most=NAMED_AT_MOST)


def summary(made: Sequence[Checked], odds: float) -> list[str]:
    """What holds, in a few sentences.

    Example:
        >>> print(*summary([Checked("a", True, True, False, True, "", True)], 100.0), sep="\\n")
        The proofs of 1 of 1 plates hold.
        1: no other answer is more probable.
        1: complete at the certificate's own odds of 100: every answer more than 1/100 as probable is listed.
        The calls of 1 of 1 plates contradict no proof.
    """
    holds = [one for one in made if one.holds]
    own = f"{odds:.10g}"  # of odds close to 1 the digits matter: such a list need hold nothing
    complete = f"complete at the certificate's own odds of {own}: every answer more than 1/{own} as probable is listed"
    lines = [f"The proofs of {len(holds)} of {len(made)} plates hold."]
    for number, words in (
        (sum(one.optimal for one in holds), "no other answer is more probable"),
        (sum(one.listed for one in holds), complete),
        (sum(one.impossible for one in holds), "no answer explains the counts"),
    ):
        lines += [f"{number}: {words}."] if number else []
    if made and made[0].calls is not None:
        same = sum(one.calls is True for one in made)
        lines.append(f"The calls of {same} of {len(made)} plates contradict no proof.")
    return lines
