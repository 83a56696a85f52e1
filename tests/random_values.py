"""Small random problems of copies and categories, and every x of them: what decoders of values are compared with."""

import itertools
import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from qgt import (
    Categories,
    Certified,
    Copies,
    Decoded,
    Design,
    Gaussian,
    Noise,
    Noiseless,
    PerCategory,
    PerPool,
    PositiveNegative,
    Problem,
    Reads,
    SparseInteger,
    Status,
    check_certificate,
)

CLOSE = 1e-5  # nats: more than the search's tolerance, less than any two different costs that occur
NOISES: tuple[Noise, ...] = (
    Noiseless(),
    SparseInteger(rate=0.2, bound=1),
    Gaussian(sigma=0.4),
    Reads(depth=30, error=0.02),
    PositiveNegative(sensitivity=0.9, specificity=0.95),
)


class Case(NamedTuple):
    """A problem with the reports of some instances: possible ones, some of them missing, and arbitrary ones."""

    problem: Problem
    y: Tensor

    @property
    def levels(self) -> int:
        assert self.problem.values is not None
        return self.problem.values.levels


class Every(NamedTuple):
    """Every x of a problem, and its log joint with the reports of each instance."""

    x: Tensor  # (states, items)
    log_joint: Tensor  # (instances, states)

    @property
    def best(self) -> Tensor:
        return self.log_joint.amax(1)

    @property
    def posterior(self) -> Tensor:
        return (self.log_joint - self.best.nan_to_num(neginf=0.0)[:, None]).softmax(1)


def _whole(low: int, high: int, generator: Generator) -> int:
    return int(torch.randint(low, high + 1, (1,), generator=generator))


def _chance(generator: Generator) -> float:
    return float(torch.rand(1, generator=generator, dtype=torch.float64))


def random_prior(kind: str, items: int, generator: Generator) -> Categories | Copies:
    """Any rates or shares, of all items or of each, with one to three values besides 0; some are not reported."""
    levels, each = _whole(1, 3, generator), _chance(generator) < 0.4
    shares = torch.rand(items, levels + 1, generator=generator, dtype=torch.float64).square() + 0.02
    shares = shares / shares.sum(1, keepdim=True)
    if kind == "categories":
        some = levels > 1 and _chance(generator) < 0.3
        rates = shares[:, 1:] if each else shares[0, 1:]
        if each and _chance(generator) < 0.3:
            rates[0, 0] = 0.0
        return Categories(rates, [_whole(1, levels, generator)] if some else None)
    if each:
        return Copies(frequency=[0.6 * _chance(generator) for _ in range(items)], ploidy=levels)
    if _chance(generator) < 0.5:
        return Copies(frequency=0.6 * _chance(generator), ploidy=levels)
    return Copies.from_distribution(shares[0].tolist())


def random_noise(prior: Categories | Copies, pools: int, generator: Generator) -> Noise:
    """One of several, now and then another one in the last pool, or in each category."""
    noise = NOISES[_whole(0, len(NOISES) - 1, generator)]
    if _chance(generator) < 0.1:
        noise = PerPool([noise] * (pools - 1) + [Noiseless() if noise.integer else noise])
    if not isinstance(prior, Categories) or _chance(generator) < 0.7:
        return noise
    others = [NOISES[_whole(0, len(NOISES) - 1, generator)] for _ in prior.columns[1:]]
    return PerCategory([noise, *others])


def random_case(kind: str, generator: Generator, instances: int = 4) -> Case:
    """A small problem; kind is "copies" or "categories"."""
    items, pools = _whole(2, 5, generator), _whole(1, 5, generator)
    matrix = torch.randint(0, 2, (pools, items), generator=generator).to(torch.uint8)
    prior = random_prior(kind, items, generator)
    noise = random_noise(prior, pools, generator)
    problem = Problem(Design.from_matrix(matrix), prior, noise)
    y = problem.simulate(instances, generator=generator).y
    if _chance(generator) < 0.3:
        y[0].view(-1)[0] = torch.nan
    if _chance(generator) < 0.3 and noise.integer:
        y[1] = torch.randint(0, 3, y[1].shape, generator=generator).to(torch.float64)
    return Case(problem, y)


def every_x(case: Case) -> Every:
    """All values of all items, by the model's own `log_joint`."""
    problem, y = case
    x = torch.tensor(list(itertools.product(range(case.levels + 1), repeat=problem.items)), dtype=torch.uint8)
    rows = [problem.log_joint(x, one[None].expand(len(x), *one.shape).contiguous()) for one in y]
    return Every(x, torch.stack(rows))


def right_status(every: Every, status: Tensor) -> Tensor:
    """Whether each instance is proved, or infeasible where no x is possible."""
    return torch.where(every.best > -math.inf, status == Status.PROVED, status == Status.INFEASIBLE)


def best_found(case: Case, every: Every, result: Decoded) -> Tensor:
    """Whether each answer is as probable as the most probable x."""
    off = (case.problem.log_joint(result.x, case.y) - every.best).abs()
    return (off < CLOSE) | (every.best == -math.inf)


def list_is_right(case: Case, every: Every, result: Decoded, odds: float) -> bool:
    """Whether each instance lists every x within the odds once, with its probability among those listed."""
    answers = result.evidence.alternatives
    assert answers is not None
    for i in range(len(case.y)):
        if every.best[i] == -math.inf:
            continue
        some = answers.of_instance(i)
        within = every.log_joint[i] > every.best[i] - math.log(odds) + CLOSE
        wanted, found = {tuple(x) for x in every.x[within].tolist()}, [tuple(x) for x in some.x.tolist()]
        if len(set(found)) != len(found) or not wanted <= set(found):
            return False
        place = {tuple(x): number for number, x in enumerate(every.x.tolist())}
        weights = every.log_joint[i][[place[x] for x in found]].softmax(0)
        if not torch.allclose(weights, some.probability, atol=1e-5):
            return False
    return True


def equals_brute_force(case: Case, odds: float) -> bool:
    """Whether `Certified` finds, lists and proves what trying every x does, and its certificates are accepted."""
    every = every_x(case)
    result = Certified(odds=odds).bind(case.problem)(case.y)
    right = best_found(case, every, result) & right_status(every, result.status)
    shown = check_certificate(case.problem, case.y, result)
    return bool((right & shown).all()) and (odds == 1 or list_is_right(case, every, result, odds))
