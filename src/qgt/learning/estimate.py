"""How long a training will take, by a few of its steps."""

import time
from dataclasses import replace

from torch import Generator

from qgt.decoders.neural.network import Architecture
from qgt.decoders.neural.record import TrainConfig
from qgt.learning.run import Run
from qgt.model.problem import Problem

STEPS = 8  # of the probe: on a GPU, more than it takes until they are captured
VALIDATION = 2000  # instances of the probe; a training's own number is scaled from it


def estimated_seconds(
    problem: Problem, architecture: Architecture, config: TrainConfig, *, device: str = "cpu"
) -> tuple[float, float]:
    """The seconds of one step, its instances included, and of the whole training if it does not stop early.

    The probe is a training of its own, with its own random numbers, so nothing that is trained later depends on it.

    Example:
        >>> import torch, qgt
        >>> design = qgt.Design.bernoulli(pools=6, items=8, generator=torch.Generator().manual_seed(0))
        >>> config = qgt.TrainConfig(instances=500, epochs=20, batch=100)
        >>> step, whole = estimated_seconds(qgt.Problem(design, qgt.Bernoulli(0.1)), qgt.MLP((16,)), config)
        >>> 0 < 100 * step < whole
        True
    """
    validation = min(VALIDATION, config.validation)
    small = replace(config, instances=None, steps=STEPS, epochs=3, patience=None, validation=validation)
    run = Run.begin([problem], architecture, small, Generator(device).manual_seed(0))
    run.epoch()  # warm-up: libraries start, memory is allocated, steps are captured
    began = time.perf_counter()
    run.epoch()
    middle = time.perf_counter()
    run.validate()
    validating = time.perf_counter() - middle
    step = max(middle - began - validating, 1e-6) / STEPS
    return step, config.total_steps * step + config.epochs * validating * config.validation / validation
