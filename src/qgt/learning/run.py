"""A training in progress: its settings, its state, and what one epoch does. The loop itself is in `training.py`.

An epoch is a block of instances laid out in memory and read batch by batch: a fixed data set in a new order, or fresh
instances. After it comes a validation, and the best weights so far are remembered, for each network of the stack by
its own validation loss.
"""

import dataclasses
import math
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from qgt.arguments import positive, whole
from qgt.decoders.neural.decoder import NeuralDecoder, raw_scores
from qgt.decoders.neural.network import Architecture, stack
from qgt.learning.loss import LOSSES
from qgt.learning.threshold import best_threshold
from qgt.model.problem import Problem
from qgt.trust.scoring import score
from qgt.version import __version__

WARM_UP = 0.01  # of a cosine schedule's steps
VALIDATION_CHUNK = 4096


@dataclass(frozen=True)
class TrainConfig:
    """How to train. The defaults are the paper's data sizes, with what it leaves open chosen to reproduce its table.

    Example:
        >>> TrainConfig().epoch_steps
        116
        >>> TrainConfig.fresh(steps=1000, batch=512).instances is None
        True
    """

    instances: int | None = 119_205  # of the fixed data set; None: fresh ones at every step
    validation: int = 14_900
    batch: int = 1024
    learning_rate: float = 2e-3
    epochs: int = 300
    patience: int | None = 15  # epochs without a better validation loss; None: never stop early
    steps: int | None = None  # of an epoch; None: as many whole batches as the fixed data set has
    cosine: bool = False  # let the learning rate fall to zero over all epochs, after a short warm-up

    def __post_init__(self) -> None:
        for name in ("validation", "batch", "epochs"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1))
        for name in ("instances", "patience", "steps"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name), least=1))
        object.__setattr__(self, "learning_rate", positive("learning_rate", self.learning_rate))
        if (self.instances is None) == (self.steps is None):
            raise ValueError("give either instances (a fixed data set) or steps (fresh data), not both or neither.")
        if self.instances is not None and self.batch > self.instances:
            object.__setattr__(self, "batch", self.instances)

    @classmethod
    def fresh(
        cls, *, steps: int = 40_000, batch: int = 4096, learning_rate: float = 7e-4, validation: int = 14_900
    ) -> "TrainConfig":
        """New instances at every step, for a budget of steps, with a cosine learning rate; validated 100 times."""
        epoch = max(1, whole("steps", steps, least=1) // 100)
        return cls(
            None, validation, batch, learning_rate, epochs=-(-steps // epoch), patience=None, steps=epoch, cosine=True
        )

    @property
    def epoch_steps(self) -> int:
        """Steps between two validations."""
        return self.steps if self.instances is None else self.instances // self.batch  # type: ignore[return-value]

    def rate_at(self, step: int) -> float:
        """The learning rate at a step."""
        if not self.cosine:
            return self.learning_rate
        total = self.epochs * self.epoch_steps
        warm = min(1.0, (step + 1) / (WARM_UP * total))
        return self.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / total))


def make_config(*, fresh: bool, given: Mapping[str, Any]) -> TrainConfig:
    """The settings of a regime with some of them replaced; None leaves a default. Strangers to the regime are named."""
    common = ("batch", "learning_rate", "validation")
    known = ("steps", *common) if fresh else ("instances", *common, "epochs", "patience")
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if name not in known:
            regime = "fresh instances (steps)" if fresh else "a fixed data set"
            raise ValueError(f"{name}={chosen[name]} has no meaning with {regime}: use {', '.join(known)}.")
    return TrainConfig.fresh(**chosen) if fresh else TrainConfig(**chosen)


@dataclass(frozen=True)
class Epoch:
    """What a progress callback is told after each epoch; means over the networks still training.

    Example:
        >>> epoch = Epoch(3, 300, 0.05, 0.04, 0.52, best=True, seconds=2.5)
        >>> f"epoch {epoch.number} of {epoch.total}: success rate {epoch.success_rate:.0%}"
        'epoch 3 of 300: success rate 52%'
    """

    number: int  # from 1
    total: int
    train_loss: float
    validation_loss: float
    success_rate: float  # on the validation instances, at their best threshold
    best: bool  # whether this is the best validation loss so far (of the first network)
    seconds: float


@dataclass(eq=False)
class Run:
    """A training in progress: everything that changes from epoch to epoch."""

    problems: list[Problem]
    architecture: Architecture
    config: TrainConfig
    generator: Generator
    number: int = 0  # epochs done
    interrupted: bool = False
    history: list[list[dict[str, float]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        device, models, items = self.generator.device, len(self.problems), self.problems[0].items
        self.start = self.generator.get_state()
        self.pools = max(problem.pools for problem in self.problems)
        sizes = [{"pools": problem.pools, "items": items} for problem in self.problems]
        self.network = stack([self.architecture.build(**size, generator=self.generator) for size in sizes])
        self.loss = LOSSES[self.architecture.loss]
        self.validation = self._draw(self.config.validation)
        self.data = None if self.config.instances is None else self._draw(self.config.instances)
        block = self.config.batch * self.config.epoch_steps
        self.x = torch.empty(models, block, items, dtype=torch.uint8, device=device)
        self.y = torch.empty(models, block, self.pools, device=device)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(),
            # A captured step reads its learning rate from the device; elsewhere a plain number is faster.
            lr=torch.tensor(self.config.learning_rate, device=device)
            if device.type == "cuda"
            else self.config.learning_rate,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.best = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.best_loss = torch.full((models,), torch.inf, device=device)
        self.waited = torch.zeros(models, dtype=torch.int64, device=device)  # epochs since the best
        self.covered = torch.zeros(models, items, dtype=torch.bool, device=device)  # items defective in training
        self.step = Step(self)
        self.history = [[] for _ in self.problems]

    def _draw(self, instances: int) -> tuple[Tensor, Tensor]:
        """Instances of every problem: x (models, n, items) uint8, y (models, n, pools) float32, padded with zeros."""
        pairs = [problem.simulate(instances, generator=self.generator) for problem in self.problems]
        counts = [F.pad(y.to(torch.float32), (0, self.pools - y.shape[1])) for _, y in pairs]
        return torch.stack([x for x, _ in pairs]), torch.stack(counts)

    @property
    def training(self) -> Tensor:
        """Which networks have not yet run out of patience."""
        return self.waited < (self.config.patience or self.config.epochs + 1)

    @property
    def finished(self) -> bool:
        """Whether the budget is spent or every network has run out of patience."""
        return self.number >= self.config.epochs or not bool(self.training.any())

    def epoch(self) -> Epoch:
        """Lay out a block of instances, take its steps, validate, remember the best."""
        began = time.perf_counter()
        self._fill()
        self.network.train()
        train_loss = self.step.run(self.number * self.config.epoch_steps, self.config.epoch_steps)
        loss, success = self._validate()
        training, better = self.training, self.training & (loss < self.best_loss)
        for name, tensor in self.network.state_dict().items():
            mask = better.view(-1, *[1] * (tensor.dim() - 1))
            self.best[name] = torch.where(mask, tensor, self.best[name])
        self.best_loss = torch.where(better, loss, self.best_loss)
        self.waited = torch.where(better, 0, self.waited + 1)
        self.number += 1
        seconds = time.perf_counter() - began
        self._record(training.tolist(), train_loss.tolist(), loss.tolist(), success, seconds)
        active = [rows[-1] for rows, on in zip(self.history, training.tolist(), strict=True) if on]
        means = {key: sum(row[key] for row in active) / len(active) for key in active[0]}
        return Epoch(
            self.number,
            self.config.epochs,
            means["train_loss"],
            means["validation_loss"],
            means["success_rate"],
            bool(better[0]),
            seconds,
        )

    def _fill(self) -> None:
        """Write the next epoch's instances into the block: the data set in a new order, or fresh ones."""
        block = self.x.shape[1]
        for i, problem in enumerate(self.problems):
            if self.data is None:
                x, y = problem.simulate(block, generator=self.generator)
                self.x[i], self.y[i, :, : y.shape[1]] = x, y.to(torch.float32)
                self.y[i, :, y.shape[1] :] = 0
            else:
                x, y = self.data[0][i], self.data[1][i]
                order = torch.randperm(len(x), generator=self.generator, device=x.device)[:block]
                torch.index_select(x, 0, order, out=self.x[i])
                torch.index_select(y, 0, order, out=self.y[i])
        self.covered |= self.x.amax(1) == 1

    @torch.no_grad()
    def _validate(self) -> tuple[Tensor, list[float]]:
        """Each network's loss and success rate on the validation instances."""
        self.network.eval()
        x, y = self.validation
        scores = torch.cat([self.network(part) for part in y.split(VALIDATION_CHUNK, dim=1)], dim=1)
        return self.loss(scores, x.to(scores.dtype)), [_success(s, t) for s, t in zip(scores, x, strict=True)]

    def _record(
        self, training: list[bool], train_loss: list[float], loss: list[float], success: list[float], seconds: float
    ) -> None:
        rate = self.config.rate_at(self.number * self.config.epoch_steps - 1)
        for i, rows in enumerate(self.history):
            if training[i]:
                rows.append(
                    {
                        "epoch": self.number,
                        "train_loss": train_loss[i],
                        "validation_loss": loss[i],
                        "success_rate": success[i],
                        "learning_rate": rate,
                        "seconds": seconds,
                    }
                )

    def decoders(self) -> list[NeuralDecoder]:
        """Each network by itself, with its best weights and their best threshold."""
        return [self._decoder(i) for i in range(len(self.problems))]

    def _decoder(self, i: int) -> NeuralDecoder:
        problem = self.problems[i]
        if self.best_loss[i] == torch.inf:
            raise ValueError(f"training diverged at learning_rate={self.config.learning_rate}: give a smaller one.")
        network = self.architecture.build(
            pools=problem.pools, items=problem.items, generator=Generator(self.generator.device).manual_seed(0)
        )
        state = {name: tensor[i : i + 1] for name, tensor in self.best.items()}
        # The first layer drops its weights for pools this problem lacks.
        network.load_state_dict({k: state[k][..., : v.shape[-1]] for k, v in network.state_dict().items()})
        network.eval()
        x, y = self.validation[0][i], self.validation[1][i, :, : problem.pools]
        threshold = best_threshold(raw_scores(network, y), x)
        decoder = NeuralDecoder(self.architecture, network, threshold, problem.spec)
        return dataclasses.replace(decoder, training={**self._account(i), **self._test(i, decoder)})

    def _test(self, i: int, decoder: NeuralDecoder) -> dict[str, Any]:
        """Score the decoder on instances it never met, apart for supports that were and were not in its training set.

        Coverage is the paper's condition for generalising: every item was defective at least once in training.
        """
        problem = self.problems[i]
        x, y = problem.simulate(self.config.validation, generator=self.generator)
        calls = decoder.bind(problem)(y).x
        result: dict[str, Any] = {"test": score(x, calls).to_plain(), "items_covered": int(self.covered[i].sum())}
        if self.data is not None:
            seen = torch.isin(_support_keys(x), _support_keys(self.data[0][i]))
            result["test_seen"] = score(x[seen], calls[seen]).to_plain()
            result["test_unseen"] = score(x[~seen], calls[~seen]).to_plain()
        return result

    def _account(self, i: int) -> dict[str, Any]:
        """What a saved model says about its training: plain data."""
        device = self.generator.device
        return {
            "config": dataclasses.asdict(self.config),
            "seed": self.generator.initial_seed(),
            "stack": [i, len(self.problems)],
            "interrupted": self.interrupted,
            "history": self.history[i],
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "versions": {
                "qgt": __version__,
                "torch": torch.__version__.split("+")[0],
                "python": platform.python_version(),
            },
        }


class Step:
    """One optimiser step on the next batch of the block; on a GPU captured as a CUDA graph after a few plain steps."""

    def __init__(self, run: Run) -> None:
        device = run.generator.device
        self.owner = run
        self.position = torch.zeros((), dtype=torch.int64, device=device)
        self.offsets = torch.arange(run.config.batch, device=device)
        self.total = torch.zeros(len(run.problems), device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def run(self, first: int, steps: int) -> Tensor:
        """Take all steps of a block; the mean training loss of each network."""
        self.position.zero_()
        self.total.zero_()
        for step in range(first, first + steps):
            self._set_rate(step)
            if self.graph is not None:
                self.graph.replay()
            elif step - first == 3 and self.position.device.type == "cuda":
                self._capture()
            else:
                self._step()
        return self.total / steps

    def _set_rate(self, step: int) -> None:
        group, rate = self.owner.optimizer.param_groups[0], self.owner.config.rate_at(step)
        if not isinstance(group["lr"], Tensor):
            group["lr"] = rate
        elif self.owner.config.cosine:
            group["lr"].fill_(rate)

    def _step(self) -> None:
        run = self.owner
        batch = self.position * len(self.offsets) + self.offsets
        x = run.x.index_select(1, batch).to(torch.float32)
        losses = run.loss(run.network(run.y.index_select(1, batch), run.generator), x)
        run.optimizer.zero_grad()
        losses.sum().backward()  # the networks share nothing, so each gets its own gradient
        run.optimizer.step()
        self.total += losses.detach()
        self.position += 1

    def _capture(self) -> None:
        """Record a step and take it."""
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.owner.generator)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self._step()
        self.graph.replay()


def _success(scores: Tensor, x: Tensor) -> float:
    """The success rate at the best threshold; none where training has diverged."""
    if bool(scores.isnan().any()):
        return 0.0
    return float(((scores >= best_threshold(scores, x)) == x.bool()).all(1).double().mean())


def _support_keys(x: Tensor) -> Tensor:
    """A 64-bit key for each row of x; different rows share one with a probability of about 2^-64."""
    weights = torch.empty(x.shape[1], dtype=torch.int64).random_(generator=Generator().manual_seed(0)).to(x.device)
    return torch.cat([(part * weights).sum(1) for part in x.split(2**16)])
