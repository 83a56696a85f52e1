"""A training in progress: what one epoch does, and what can be saved between two. The loop is in `training.py`.

An epoch fills a block with instances and takes its optimiser steps (both in `steps.py`), validates, and remembers the
best weights so far, for each network of the stack by its own validation loss.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, UInt8
from torch import Generator, Tensor

from qgt.decoders.neural.decoder import NeuralDecoder, raw_scores
from qgt.decoders.neural.heads import Softmax, head_for, which_head, who
from qgt.decoders.neural.network import Architecture, Head, Network, built, stack
from qgt.decoders.neural.record import Epoch, TrainConfig, Training
from qgt.learning.checkpoints import Progress, TrainingState
from qgt.learning.steps import Data, Steps, Together, loss_for, with_gaps
from qgt.model.loads import as_statuses
from qgt.model.problem import Problem
from qgt.trust.metrics import score
from qgt.version import provenance

# The threshold that turns scores into calls: the tau with the highest success rate, found exactly.
#
# An instance is decoded without error by "call 1 where score >= tau" for exactly the tau in the half-open interval
# (highest score of its non-defective items, lowest score of its defective items]. So the best tau is a point covered by
# most intervals, and sorting their ends finds it: O(n log n), no grid.


def best_threshold(scores: Float[Tensor, "instances items"], x: UInt8[Tensor, "instances items"]) -> float:
    """Return a tau at which `scores >= tau` equals x for as many instances as any tau can reach.

    Of several best stretches it takes the widest, and in that the middle, to be as far from mistakes as it can. The
    result is a number of the scores' own dtype, so comparing with it rounds nothing.

    Example:
        >>> import torch
        >>> scores = torch.tensor([[0.1, 0.9], [0.4, 0.8]])
        >>> round(best_threshold(scores, torch.tensor([[0, 1], [0, 1]], dtype=torch.uint8)), 3)
        0.6
    """
    if not len(scores) or bool(scores.isnan().any()):
        raise ValueError("scores are empty or hold NaN: give at least one instance with finite scores.")
    low = scores.masked_fill(x == 1, -torch.inf).amax(1)  # (instances,)
    high = scores.masked_fill(x == 0, torch.inf).amin(1)
    possible = low < high
    if not bool(possible.any()):
        return float(scores.median())  # no tau decodes any instance: all are equally good
    low, high = low[possible].sort().values, high[possible].sort().values
    # At tau = h the covering intervals are those that began below h less those that ended below h.
    covered = torch.searchsorted(low, high) - torch.searchsorted(high, high)
    best = high[covered == covered.max()]
    ends = torch.cat([low, high]).sort().values
    below = ends[torch.searchsorted(ends, best) - 1]  # the stretch (below, best] is covered throughout
    widest = (best - below).nan_to_num(nan=torch.inf).argmax()
    return _inside(below[widest], best[widest])


def _inside(low: Tensor, high: Tensor) -> float:
    """A finite number in (low, high], the middle where both ends are finite."""
    if torch.isinf(high):
        return 0.0 if torch.isinf(low) else float(torch.nextafter(low, high))
    if torch.isinf(low):
        return float(high)
    middle = low / 2 + high / 2  # high - low may overflow
    return float(middle if middle > low else high)


# The best weights so far of each network of a stack, by its own validation loss, and when to give up waiting.


@final
@dataclass(eq=False)
class Best:
    """What has been best until now."""

    weights: dict[str, Tensor]
    loss: Tensor  # (models,) infinite where there is none
    waited: Tensor  # (models,) epochs since
    patience: int

    @classmethod
    def start(cls, network: Network, models: int, config: TrainConfig, device: torch.device) -> "Best":
        """Nothing yet."""
        return cls(
            {name: tensor.clone() for name, tensor in network.state_dict().items()},
            torch.full((models,), torch.inf, device=device),
            torch.zeros(models, dtype=torch.int64, device=device),
            config.patience or config.epochs + 1,
        )

    @property
    def training(self) -> Tensor:
        """Which networks have not yet run out of patience."""
        return self.waited < self.patience

    @property
    def diverged(self) -> bool:
        """Whether a network never had a finite validation loss."""
        return bool((self.loss == torch.inf).any())

    def update(self, weights: dict[str, Tensor], loss: Tensor) -> Tensor:
        """Remember weights that are better than before; returns which networks have such."""
        better = self.training & (loss < self.loss)
        self.weights = {
            name: torch.where(better.view(-1, *[1] * (tensor.dim() - 1)), tensor, self.weights[name])
            for name, tensor in weights.items()
        }
        self.loss = torch.where(better, loss, self.loss)
        self.waited = torch.where(better, 0, self.waited + 1)
        return better

    def weights_of(self, i: int) -> dict[str, Tensor]:
        """One network's, as a stack of one."""
        return {name: tensor[i : i + 1] for name, tensor in self.weights.items()}

    def state(self) -> dict[str, Tensor]:
        """All of it, by name."""
        weights = {f"best.{name}": tensor for name, tensor in self.weights.items()}
        return {**weights, "best_loss": self.loss, "waited": self.waited}

    def restore(self, state: TrainingState) -> None:
        """Take over what a state remembers."""
        device = self.loss.device
        self.weights = {name: tensor.to(device) for name, tensor in state.under("best.").items()}
        self.loss, self.waited = state.tensors["best_loss"].to(device), state.tensors["waited"].to(device)


# The run.

VALIDATION_CHUNK = 4096


@final
@dataclass(eq=False)
class TrainingRun:
    """A training in progress: everything that changes from epoch to epoch."""

    architecture: Architecture
    config: TrainConfig
    generator: Generator
    start: Tensor  # the generator's state when the run began: from it the first weights and all data follow
    data: Data
    steps: Steps
    best: Best
    history: list[list[Epoch]]  # of each network, until it ran out of patience
    number: int = 0  # epochs done

    @classmethod
    def begin(
        cls,
        problems: Sequence[Problem],
        architecture: Architecture,
        config: TrainConfig,
        generator: Generator,
        together: Together = Together(),  # noqa: B008 - frozen
    ) -> "TrainingRun":
        """Draw the first weights and the data."""
        together.check(architecture, config)
        start = generator.get_state()
        network = stack(_untrained(architecture, problem, config, generator) for problem in problems)
        network.head = head_for(problems[0].prior)
        data = Data.draw(tuple(problems), config, generator)
        network.prepare(*data.validation)
        steps = Steps.start(network, loss_for(architecture, problems[0]), data.block, config, generator, together)
        best = Best.start(network, len(problems), config, generator.device)
        return cls(architecture, config, generator, start, data, steps, best, history=[[] for _ in problems])

    @classmethod
    def restore(
        cls,
        problems: Sequence[Problem],
        architecture: Architecture,
        config: TrainConfig,
        generator: Generator,
        state: TrainingState,
        together: Together = Together(),  # noqa: B008 - frozen
    ) -> "TrainingRun":
        """The run whose `state` this is; the generator goes on from where that run's was."""
        # The same start gives the same first weights and the same data set as when the run began.
        generator.manual_seed(state.progress.seed).set_state(state.tensors["start"])
        run = cls.begin(problems, architecture, config, generator, together)
        run.steps.restore(state)
        run.best.restore(state)
        run.data.covered.copy_(state.tensors["covered"])
        run.history = [list(rows) for rows in state.progress.history]
        run.number = state.progress.number
        generator.set_state(state.tensors["now"])
        return run

    def state(self) -> TrainingState:
        """All that `restore` needs, between two epochs."""
        tensors = {**self.steps.state(), **self.best.state(), "covered": self.data.covered}
        tensors |= {"start": self.start, "now": self.generator.get_state()}
        return TrainingState(tensors, Progress(self.number, self.generator.initial_seed(), self.history))

    @property
    def finished(self) -> bool:
        """Whether the budget is spent or every network has run out of patience."""
        return self.number >= self.config.epochs or not bool(self.best.training.any())

    def epoch(self) -> Epoch:
        """Lay out a block of instances, take its steps, validate, remember the best; means over those training."""
        began = time.perf_counter()
        self.data.fill(self.generator)
        train_loss = self.steps.run(self.number * self.config.epoch_steps)
        loss, success = self.validate()
        training = self.best.training.tolist()
        better = self.best.update(self.steps.network.state_dict(), loss).tolist()
        self.number += 1
        rate = self.config.rate_at(self.number * self.config.epoch_steps - 1)
        seconds = time.perf_counter() - began
        measured = zip(train_loss.tolist(), loss.tolist(), success, better, strict=True)
        rows = [Epoch(self.number, self.config.epochs, *values, rate, seconds) for values in measured]
        for history, row, active in zip(self.history, rows, training, strict=True):
            if active:
                history.append(row)
        return _mean([row for row, active in zip(rows, training, strict=True) if active], best=better[0])

    @torch.no_grad()
    def validate(self) -> tuple[Tensor, list[float]]:
        """Each network's loss and success rate on the validation instances."""
        network = self.steps.network.eval()
        x, y = self.data.validation
        outputs = torch.cat([network(part) for part in y.split(VALIDATION_CHUNK, dim=1)], dim=1)
        scores = which_head(outputs, x.shape[2])
        rates = [_success(network.head, s, t) for s, t in zip(scores, who(x), strict=True)]
        return self.steps.loss(outputs, x.to(outputs.dtype)), rates

    def decoders(self, *, interrupted: bool = False) -> list[NeuralDecoder]:
        """Each network by itself, with its best weights and their best threshold, tested on new instances."""
        return [self._decoder(i, interrupted) for i in range(len(self.history))]

    def _decoder(self, i: int, interrupted: bool) -> NeuralDecoder:
        problem = self.data.problems[i]
        any_weights = Generator(self.generator.device).manual_seed(0)  # they are replaced at once
        network = _untrained(self.architecture, problem, self.config, any_weights)
        weights = self.best.weights_of(i)
        # The first layer drops its weights for pools this problem lacks.
        network.load_state_dict({k: weights[k][..., : v.shape[-1]] for k, v in network.state_dict().items()})
        network.head = self.steps.network.head
        network.eval()
        x, y = self.data.validation_of(i)
        threshold = _threshold(network.head, which_head(raw_scores(network, y), problem.items), who(x))
        decoder = NeuralDecoder(self.architecture, network, threshold, problem.spec, own=problem)
        record = self._record(i, decoder, interrupted)
        return replace(decoder, training=record)

    def _record(self, i: int, decoder: NeuralDecoder, interrupted: bool) -> Training:
        """Score the decoder on instances it never met, apart for those whose x was and was not in its training set."""
        problem = self.data.problems[i]
        amounts, y = problem.simulate(self.config.validation, generator=self.generator)
        x = as_statuses(amounts)
        y = with_gaps(y, self.config.missing, self.generator)
        calls = decoder.bind(problem)(y).x
        seen = self.data.met(i, x)
        return Training(
            config=self.config,
            seed=self.generator.initial_seed(),
            place=i,
            stack=len(self.history),
            history=tuple(self.history[i]),
            interrupted=interrupted,
            items_covered=int(self.data.covered[i].sum()),
            test=score(x, calls).outcomes,
            test_seen=None if seen is None else score(x[seen], calls[seen]).outcomes,
            test_unseen=None if seen is None else score(x[~seen], calls[~seen]).outcomes,
            made_on=provenance(self.generator.device),
        )


def _untrained(architecture: Architecture, problem: Problem, config: TrainConfig, generator: Generator) -> Network:
    """A network for a problem, with inputs for missing counts and for loads where there are any."""
    missing, loads = config.missing > 0, problem.loads is not None
    return built(architecture, problem.design, missing=missing, loads=loads, generator=generator)


def _mean(rows: list[Epoch], *, best: bool) -> Epoch:
    """The epoch that a progress callback gets: the means over the networks that are still training."""
    first, n = rows[0], len(rows)
    return Epoch(
        first.number,
        first.total,
        sum(row.train_loss for row in rows) / n,
        sum(row.validation_loss for row in rows) / n,
        sum(row.success_rate for row in rows) / n,
        best,
        first.learning_rate,
        first.seconds,
    )


def _threshold(head: Head, scores: Tensor, x: Tensor) -> float:
    """The threshold that decodes most instances; of values, those in which no item is taken for another one but 0."""
    if not isinstance(head, Softmax):
        return best_threshold(scores, x)
    truth, (value, odds) = head.shares(x.to(scores.dtype)).argmax(1), head.best(scores)  # (instances, items)
    possible = ((value == truth) | (truth == 0)).all(1)
    return best_threshold(odds[possible], (truth[possible] > 0).to(torch.uint8)) if bool(possible.any()) else 0.0


def _success(head: Head, scores: Tensor, x: Tensor) -> float:
    """The success rate at the best threshold; 0 where training has diverged."""
    if bool(scores.isnan().any()):
        return 0.0
    threshold = _threshold(head, scores, x)
    calls = head.calls(scores, threshold) if isinstance(head, Softmax) else scores >= threshold
    return float((calls == x.bool()).all(1).double().mean())
