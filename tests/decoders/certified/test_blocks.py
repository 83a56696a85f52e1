"""Categories proved one by one, and copies: equal to trying every x, with certificates that cannot be forged."""

from dataclasses import replace

import pytest
import torch

from qgt import Answers, Categories, Certified, Copies, Decoded, Design, Problem, SparseInteger, Status
from qgt.decoders.checker import check_certificate, check_claims
from qgt.decoders.results import Spans
from random_problems import some_of
from random_values import equals_brute_force, random_case


@pytest.mark.parametrize("kind", ["copies", "categories"])
def test_it_equals_trying_every_x(kind: str, unchecked: None) -> None:
    g = torch.Generator().manual_seed(0)
    for number in range(some_of(250)):
        assert equals_brute_force(random_case(kind, g), odds=(1.0, 5.0, 100.0)[number % 3])


def problem_of(pools: int = 12, items: int = 24) -> Problem:
    g = torch.Generator().manual_seed(0)
    design = Design.bernoulli(pools=pools, items=items, generator=g)
    return Problem(design, Categories((0.06, 0.06)), SparseInteger(rate=0.1, bound=1))


def decoded(problem: Problem, instances: int = 10) -> tuple[torch.Tensor, torch.Tensor, Decoded]:
    x, y = problem.simulate(instances, generator=torch.Generator().manual_seed(1))
    return x, y, Certified().bind(problem)(y)


def test_an_item_in_two_categories_is_searched_again() -> None:
    # One item is in every pool. Both categories by themselves would call it, and only one of them may.
    problem = Problem(Design.from_rows(["100", "110", "101"]), Categories((0.1, 0.1)), SparseInteger(rate=0.3, bound=1))
    y = torch.tensor([[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]], dtype=torch.float64)
    result = Certified().bind(problem)(y)
    assert result.blocks is not None
    assert bool((result.blocks[0].x[0] & result.blocks[1].x[0]).any())  # they contradict
    assert result.status.tolist() == [Status.PROVED] and check_certificate(problem, y, result).tolist() == [True]


def test_batches_do_not_change_answers() -> None:
    problem = problem_of()
    _, y, result = decoded(problem)
    alone = [Certified().bind(problem)(one[None]) for one in y]
    assert torch.equal(torch.cat([one.x for one in alone]), result.x)
    assert torch.allclose(torch.cat([one.evidence.confidence for one in alone]), result.evidence.confidence)
    joined = Decoded.joined(alone)
    assert check_certificate(problem, y, joined).all()
    assert check_certificate(problem, y[[3, 1]], result.pick(torch.tensor([3, 1]))).all()


def test_a_category_that_is_missing_or_not_reported_is_the_prior_s() -> None:
    problem = Problem(Design.from_rows(["11", "01"]), Categories((0.2, 0.1), reported=[2]), SparseInteger(0.1, 1))
    result = Certified(odds=1e6).bind(problem)(torch.tensor([[[0.0], [0.0]]]))
    assert result.x.tolist() == [[0, 0]]
    share = 0.2 / 0.9  # of category 1 among items that are not in category 2
    assert abs(float(result.evidence.values[0, 0, 1]) - share) < 0.02


def test_a_time_limit_claims_nothing() -> None:
    problem = problem_of(pools=16, items=100)
    y = problem.simulate(30, generator=torch.Generator().manual_seed(2)).y
    result = Certified(time_limit=1e-6).bind(problem)(y)
    open_ = result.status == Status.TIME_LIMIT
    assert bool(open_.any()) and not bool(result.evidence.complete[open_].any())
    assert bool((check_certificate(problem, y, result) == ~open_).all())


# Forgeries: each of them must be refused.


def without_first(answers: Answers, instance: int, row: int) -> Answers:
    """The answers less one of an instance's."""
    at = answers.spans.rows(instance).start + row
    keep = torch.arange(len(answers.x)) != at
    numbers = answers.spans.numbers.clone()
    numbers[instance] -= 1
    parts = answers.x[keep], answers.log_joint[keep], answers.probability[keep]
    return Answers(Spans(numbers.cumsum(0)), *parts)


def test_a_shorter_list_is_refused() -> None:
    problem = problem_of()
    _, y, result = decoded(problem)
    answers = result.evidence.alternatives
    i = int((answers.spans.numbers > 1).nonzero()[0])
    shorter = replace(result.evidence, alternatives=without_first(answers, i, 1))
    claims = check_claims(problem, y, replace(result, evidence=shorter))
    assert not bool(claims.listed[i]) and bool(claims.optimal[i])
    assert not bool(check_certificate(problem, y, replace(result, evidence=shorter))[i])


def test_a_worse_answer_is_refused() -> None:
    problem = problem_of()
    _, y, result = decoded(problem)
    worse = result.x.clone()
    worse[:, 0] = (worse[:, 0] + 1) % 3
    forged = replace(result, x=worse, evidence=replace(result.evidence, log_joint=problem.log_joint(worse, y)))
    assert not bool(check_certificate(problem, y, forged).any())


def claiming_the_last(problem: Problem, y: torch.Tensor, result: Decoded) -> tuple[Decoded, torch.Tensor]:
    """The least probable listed answer of each instance as its only answer, and which of these are not the best."""
    answers = result.evidence.alternatives
    last = answers.x[answers.spans.ends - 1]
    log_joint = problem.log_joint(last, y)
    alone = Answers(Spans(torch.arange(1, len(y) + 1)), last, log_joint, torch.zeros_like(log_joint))
    evidence = replace(result.evidence, log_joint=log_joint, confidence=None, alternatives=alone)
    return replace(result, x=last, evidence=evidence), log_joint < result.evidence.log_joint - 1e-3


@pytest.mark.parametrize("odds", [0.99, 1e-6, float("nan"), float("inf"), 0.0, -1.0])
def test_odds_that_would_ask_nothing_are_refused(odds: float) -> None:
    # With odds below 1 the limit is below the answer's cost, and no combination of answers is below the limit.
    problem = problem_of()
    _, y, result = decoded(problem)
    forged, wrong = claiming_the_last(problem, y, result)
    assert bool(wrong.any()) and not bool(check_certificate(problem, y, forged)[wrong].any())
    with pytest.raises(ValueError, match="odds"):
        check_certificate(problem, y, replace(forged, proof=replace(forged.proof, odds=odds)))


@pytest.mark.parametrize("prior", [Copies(frequency=0.3), Categories((0.2, 0.2)), Categories((0.2, 0.2), reported=[2])])
def test_values_that_no_item_has_are_refused(prior: Copies | Categories, unchecked: None) -> None:
    # The parts of 7 copies are those of 2, and the parts of category 7 are those of the first.
    design = Design.bernoulli(pools=5, items=6, generator=torch.Generator().manual_seed(0))
    problem = Problem(design, prior, SparseInteger(rate=0.1, bound=1))
    _, y, result = decoded(problem, instances=4)
    top = 2 if isinstance(prior, Copies) else 0
    answers = result.evidence.alternatives
    others = {"x": replace(result, x=torch.where(result.x == top, 7, result.x).to(torch.uint8))}
    listed = replace(answers, x=torch.where(answers.x == top, 7, answers.x).to(torch.uint8))
    others["alternatives"] = replace(result, evidence=replace(result.evidence, alternatives=listed))
    for name, forged in others.items():
        for one in (forged, replace(forged, blocks=None)):
            with pytest.raises(ValueError, match=f"the result's {name} has a value of 7: values are 0 to 2"):
                check_certificate(problem, y, one)
    with pytest.raises(ValueError, match=r"the result's x is torch\.float64"):
        check_certificate(problem, y, replace(result, x=result.x.double() + 0.4))


def test_blocks_of_a_problem_without_categories_are_refused() -> None:
    problem = Problem(Design.from_rows(["11", "11"]), Copies(frequency=0.3, ploidy=2))
    y = torch.tensor([[2.0, 2.0]], dtype=torch.float64)
    result = Certified().bind(problem)(y)
    with pytest.raises(ValueError, match="the result has blocks, which are of categories"):
        check_certificate(problem, y, replace(result, blocks=(result, result)))


def test_a_category_s_list_or_leaves_that_lack_something_are_refused() -> None:
    problem = problem_of()
    _, y, result = decoded(problem)
    block = result.blocks[0]
    answers, proof = block.evidence.alternatives, block.proof
    i = int((answers.spans.numbers > 1).nonzero()[0])
    shorter = replace(block, evidence=replace(block.evidence, alternatives=without_first(answers, i, 1)))
    listed = check_claims(problem, y, replace(result, blocks=(shorter, result.blocks[1]))).listed
    whole = check_claims(problem, y, result).listed
    assert bool(whole.all())
    parts = result.evidence.alternatives.of_instance(i).x == 1  # of the combinations, which the checker adds
    missing = answers.of_instance(i).x[1]
    assert bool(listed[i]) == bool((parts.to(torch.uint8) == missing).all(1).any())
    keep = torch.arange(len(proof.fixed)) != proof.spans.rows(i).start
    numbers = proof.spans.numbers.clone()
    numbers[i] -= 1
    fewer = replace(
        proof,
        spans=Spans(numbers.cumsum(0)),
        **{name: getattr(proof, name)[keep] for name in ("fixed", "least", "most", "pi", "shares")},
    )
    forged = replace(result, blocks=(replace(block, proof=fewer), result.blocks[1]))
    assert not bool(check_certificate(problem, y, forged)[i])


def test_proofs_of_other_counts_are_refused() -> None:
    problem = problem_of()
    _, y, result = decoded(problem)
    assert not bool(check_certificate(problem, y + 1, result).any())


def test_results_without_all_categories_are_refused() -> None:
    problem = problem_of()
    _, y, result = decoded(problem)
    with pytest.raises(ValueError, match="1 blocks, and there are 2 categories"):
        check_certificate(problem, y, replace(result, blocks=result.blocks[:1]))
    bare = replace(result.blocks[0], proof=None)
    with pytest.raises(ValueError, match=r"blocks\[0\] has no certificates"):
        check_certificate(problem, y, replace(result, blocks=(bare, result.blocks[1])))


def test_a_false_claim_of_impossible_counts_is_refused() -> None:
    problem = problem_of()
    _, y, result = decoded(problem)
    status = torch.full_like(result.status, Status.INFEASIBLE)
    blocks = tuple(replace(one, status=torch.full_like(one.status, Status.INFEASIBLE)) for one in result.blocks)
    assert not bool(check_certificate(problem, y, replace(result, status=status, blocks=blocks)).any())


def test_copies_of_one_item_are_listed_once() -> None:
    problem = Problem(Design.from_rows(["11", "11"]), Copies(frequency=0.3, ploidy=2))
    result = Certified(odds=1e3).bind(problem)(torch.tensor([[2.0, 2.0]]))
    answers = result.evidence.alternatives.of_instance(0)
    assert sorted(map(tuple, answers.x.tolist())) == [(0, 2), (1, 1), (2, 0)]
    # P(1 copy)^2 and twice P(0) P(2), of four arrangements and one each.
    assert torch.allclose(answers.probability, torch.tensor([4 / 6, 1 / 6, 1 / 6], dtype=torch.float64))
