"""A training in progress: what one epoch does, and what can be saved between two. The loop is in `training.py`.

An epoch fills a block with instances (`data.py`), takes its optimiser steps (`steps.py`), validates, and remembers the
best weights so far (`best.py`), for each network of the stack by its own validation loss.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Generator, Tensor

from qgt.decoders.neural.decoder import NeuralDecoder, raw_scores
from qgt.decoders.neural.network import Architecture, stack
from qgt.decoders.neural.record import Epoch, TrainConfig, Training
from qgt.files.provenance import provenance
from qgt.learning.best import Best
from qgt.learning.checkpoints import Progress, State
from qgt.learning.data import Data, with_gaps
from qgt.learning.loss import LOSSES
from qgt.learning.steps import Steps
from qgt.learning.threshold import best_threshold
from qgt.learning.together import Together
from qgt.model.problem import Problem
from qgt.trust.metrics import score

VALIDATION_CHUNK = 4096


@final
@dataclass(eq=False)
class Run:
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
    ) -> "Run":
        """Draw the first weights and the data."""
        together.check(architecture, config)
        start, missing = generator.get_state(), config.missing > 0
        network = stack(architecture.build(p.design, missing=missing, generator=generator) for p in problems)
        data = Data.draw(tuple(problems), config, generator)
        network.prepare(*data.validation)
        steps = Steps.start(network, LOSSES[architecture.loss], data.block, config, generator, together)
        best = Best.start(network, len(problems), config, generator.device)
        return cls(architecture, config, generator, start, data, steps, best, history=[[] for _ in problems])

    @classmethod
    def restore(
        cls,
        problems: Sequence[Problem],
        architecture: Architecture,
        config: TrainConfig,
        generator: Generator,
        state: State,
        together: Together = Together(),  # noqa: B008 - frozen
    ) -> "Run":
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

    def state(self) -> State:
        """All that `restore` needs, between two epochs."""
        tensors = {**self.steps.state(), **self.best.state(), "covered": self.data.covered}
        tensors |= {"start": self.start, "now": self.generator.get_state()}
        return State(tensors, Progress(self.number, self.generator.initial_seed(), self.history))

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
        told = zip(train_loss.tolist(), loss.tolist(), success, better, strict=True)
        rows = [Epoch(self.number, self.config.epochs, *values, rate, seconds) for values in told]
        for history, row, active in zip(self.history, rows, training, strict=True):
            if active:
                history.append(row)
        return _mean([row for row, active in zip(rows, training, strict=True) if active], best=better[0])

    @torch.no_grad()
    def validate(self) -> tuple[Tensor, list[float]]:
        """Each network's loss and success rate on the validation instances."""
        network = self.steps.network.eval()
        x, y = self.data.validation
        scores = torch.cat([network(part) for part in y.split(VALIDATION_CHUNK, dim=1)], dim=1)
        return self.steps.loss(scores, x.to(scores.dtype)), [_success(s, t) for s, t in zip(scores, x, strict=True)]

    def decoders(self, *, interrupted: bool = False) -> list[NeuralDecoder]:
        """Each network by itself, with its best weights and their best threshold, tested on new instances."""
        return [self._decoder(i, interrupted) for i in range(len(self.history))]

    def _decoder(self, i: int, interrupted: bool) -> NeuralDecoder:
        problem = self.data.problems[i]
        anything = Generator(self.generator.device).manual_seed(0)
        network = self.architecture.build(problem.design, missing=self.config.missing > 0, generator=anything)
        weights = self.best.weights_of(i)
        # The first layer drops its weights for pools this problem lacks.
        network.load_state_dict({k: weights[k][..., : v.shape[-1]] for k, v in network.state_dict().items()})
        network.eval()
        x, y = self.data.validation_of(i)
        threshold = best_threshold(raw_scores(network, y), x)
        decoder = NeuralDecoder(self.architecture, network, threshold, problem.spec)
        record = self._record(i, decoder, interrupted)
        return NeuralDecoder(self.architecture, network, threshold, decoder.spec, record)

    def _record(self, i: int, decoder: NeuralDecoder, interrupted: bool) -> Training:
        """Score the decoder on instances it never met, apart for those whose x was and was not in its training set."""
        problem = self.data.problems[i]
        x, y = problem.simulate(self.config.validation, generator=self.generator)
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


def _mean(rows: list[Epoch], *, best: bool) -> Epoch:
    """What a progress callback is told of the networks still training."""
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


def _success(scores: Tensor, x: Tensor) -> float:
    """The success rate at the best threshold; none where training has diverged."""
    if bool(scores.isnan().any()):
        return 0.0
    return float(((scores >= best_threshold(scores, x)) == x.bool()).all(1).double().mean())
