"""The instances a stack of networks is trained on: for every problem its own, padded with zeros to the most pools.

An epoch is a block of instances laid out in memory and read batch by batch: a fixed data set in a new order, or fresh
instances.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from qgt.decoders.neural.heads import inputs_of, network_inputs, network_targets, who
from qgt.decoders.neural.record import TrainConfig
from qgt.model.problem import Problem


class Stacked(NamedTuple):
    """Instances of every problem: x (models, instances, items) uint8, y (models, instances, pools) float32.

    Where items have loads, x and y are what `heads` makes of them: x float32, two inputs for each pool in y.
    """

    x: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Data:
    """What a training draws; the block and the items covered change in place from epoch to epoch."""

    problems: tuple[Problem, ...]
    missing: float  # the chance that a count is missing
    validation: Stacked
    fixed: Stacked | None  # None: fresh instances in every block
    block: Stacked
    covered: Tensor  # (models, items) bool: items that were defective in training

    @classmethod
    def draw(cls, problems: tuple[Problem, ...], config: TrainConfig, generator: Generator) -> "Data":
        """Draw the validation instances, then the fixed data set if there is one."""
        device, models, items = generator.device, len(problems), problems[0].items
        inputs = max(inputs_of(problem) for problem in problems)
        validation = _simulate(problems, config.validation, inputs, config.missing, generator)
        size = config.instances
        fixed = None if size is None else _simulate(problems, size, inputs, config.missing, generator)
        length = config.batch * config.epoch_steps
        block = Stacked(
            torch.empty(models, length, items, dtype=validation.x.dtype, device=device),
            torch.empty(models, length, inputs, device=device),
        )
        covered = torch.zeros(models, items, dtype=torch.bool, device=device)
        return cls(problems, config.missing, validation, fixed, block, covered)

    def fill(self, generator: Generator) -> None:
        """Write the next epoch's instances into the block: the data set in a new order, or fresh ones."""
        length = self.block.x.shape[1]
        for i, problem in enumerate(self.problems):
            if self.fixed is None:
                x, y = problem.simulate(length, generator=generator)
                read = network_inputs(problem, with_gaps(y, self.missing, generator))
                self.block.x[i], self.block.y[i, :, : read.shape[1]] = network_targets(problem, x), read.float()
                self.block.y[i, :, read.shape[1] :] = 0
            else:
                x, y = self.fixed.x[i], self.fixed.y[i]
                order = torch.randperm(len(x), generator=generator, device=x.device)[:length]
                torch.index_select(x, 0, order, out=self.block.x[i])
                torch.index_select(y, 0, order, out=self.block.y[i])
        self.covered.logical_or_(who(self.block.x.amax(1)) == 1)

    def validation_of(self, i: int) -> Stacked:
        """One problem's validation instances, without the padding: (instances, items), (instances, pools)."""
        return Stacked(self.validation.x[i], self.validation.y[i, :, : inputs_of(self.problems[i])])

    def met(self, i: int, x: Tensor) -> Tensor | None:
        """Which rows of statuses are in one problem's fixed data set; None where there is none."""
        return None if self.fixed is None else torch.isin(_keys(x), _keys(who(self.fixed.x[i])))


def with_gaps(y: Tensor, missing: float, generator: Generator) -> Tensor:
    """Counts of which each is missing (NaN) with the given probability; nothing is drawn where it is 0."""
    if not missing:
        return y
    draws = torch.rand(y.shape, generator=generator, device=y.device)
    return torch.where(draws < missing, torch.nan, y)


def _simulate(
    problems: tuple[Problem, ...], instances: int, inputs: int, missing: float, generator: Generator
) -> Stacked:
    pairs = [(problem, *problem.simulate(instances, generator=generator)) for problem in problems]
    read = [network_inputs(problem, with_gaps(y, missing, generator)).float() for problem, _, y in pairs]
    learned = [network_targets(problem, x) for problem, x, _ in pairs]
    return Stacked(torch.stack(learned), torch.stack([F.pad(one, (0, inputs - one.shape[1])) for one in read]))


def _keys(x: Tensor) -> Tensor:
    """A 64-bit key for each row of x; different rows share one with a probability of about 2^-64."""
    weights = torch.empty(x.shape[1], dtype=torch.int64).random_(generator=Generator().manual_seed(0)).to(x.device)
    return torch.cat([(part * weights).sum(1) for part in x.split(2**16)])
