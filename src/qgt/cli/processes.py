"""Processes that `torchrun` started to train together: what each finds in its environment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True, eq=False)
class Processes:
    """The processes of one command; a command that was started alone has no group."""

    group: "ProcessGroup | None" = None
    size: int = 1
    rank: int = 0
    device: str | None = None  # what torchrun gave to this process; None: what the options say

    @property
    def follows(self) -> bool:
        """Whether another process speaks and writes for this one."""
        return self.rank > 0


@contextmanager
def processes() -> Iterator[Processes]:
    """The group that torchrun made, for as long as it is needed."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield Processes()
        return
    import torch
    from torch import distributed

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":  # each process has a GPU of its own
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        yield Processes(distributed.group.WORLD, distributed.get_world_size(), distributed.get_rank(), device)
    finally:
        distributed.destroy_process_group()
