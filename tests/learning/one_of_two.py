"""One of two processes that train a network together: `python one_of_two.py RANK MEETING_FILE OUTPUT`."""

import sys
from datetime import timedelta

import torch
from torch import distributed

import qgt

CONFIG = qgt.TrainConfig.fresh(steps=30, batch=40, validation=200, learning_rate=2e-3, missing=0.1)
NETWORK = qgt.Refining(16, 1, 2)


def problem() -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=12, items=20, generator=torch.Generator().manual_seed(0))
    return qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.05, bound=1))


def main(rank: str, meeting: str, output: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=int(rank), world_size=2, timeout=timedelta(seconds=120)
    )
    generator = torch.Generator().manual_seed(3)
    try:
        qgt.train(problem(), qgt.MLP((8,)), generator=generator, group=distributed.group.WORLD)
    except ValueError as error:
        assert "batch_norm" in str(error)
    else:
        raise AssertionError("batch normalisation was not refused")
    generator.manual_seed(3)
    net = qgt.train(problem(), NETWORK, CONFIG, generator=generator, group=distributed.group.WORLD)
    net.save(output)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
