"""Relaxations of few nodes on a GPU, recorded once and replayed: starting a thousand kernels takes longer than they do.

A recording is of a number of nodes, so nodes are padded to the next power of two. It takes all its iterations, for no
kernel in it waits for the CPU to look whether the bounds are enough.
"""

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Model
from qgt.decoders.certified.relaxation import CHECK, Relaxed, Rows, State, relaxed_together
from qgt.decoders.certified.shares import Shares

LEAST, MOST = 2**8, 2**15  # nodes: with more, the kernels are what takes the time


class _Inputs(NamedTuple):
    """What a recording reads: the nodes' rows, what is fixed in them, and where the iteration stands."""

    rows: Rows
    fixed: Tensor
    state: State

    @property
    def parts(self) -> list[tuple[Tensor, int]]:
        """Each tensor, and which of its axes counts nodes."""
        start, cost, slopes, lengths = self.rows
        first = [start, cost, self.fixed, *self.state]
        return [*((part, 0) for part in first), (slopes, 1), (lengths, 1)]

    def padded(self, nodes: int) -> "_Inputs":
        """The same for more nodes, all zero."""

        def of(part: Tensor, axis: int = 0) -> Tensor:
            return part.new_zeros([nodes if i == axis else size for i, size in enumerate(part.shape)])

        start, cost, slopes, lengths = self.rows
        rows = Rows(of(start), of(cost), of(slopes, 1), of(lengths, 1))
        return _Inputs(rows, of(self.fixed), State(*(of(part) for part in self.state)))


class _Recording(NamedTuple):
    """A graph, and where it reads and writes."""

    graph: torch.cuda.CUDAGraph
    inputs: _Inputs
    outputs: Relaxed

    @classmethod
    def of(cls, model: Model, inputs: _Inputs, iterations: int) -> "_Recording":
        """Record the relaxation of some inputs."""
        aside = torch.cuda.Stream(inputs.fixed.device)
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries set themselves up with their first calls, which cannot be recorded
            relaxed_together(model, *inputs, CHECK)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = relaxed_together(model, *inputs, iterations)
        return cls(graph, inputs, outputs)

    def replay(self, given: _Inputs) -> Relaxed:
        """The same for other nodes, of which there may be fewer."""
        nodes = len(given.fixed)
        for (place, axis), (part, _) in zip(self.inputs.parts, given.parts, strict=True):
            place.narrow(axis, 0, nodes).copy_(part)
        self.graph.replay()
        bound, state = self.outputs
        return Relaxed(bound[:nodes].clone(), State(*(part[:nodes].clone() for part in state)))


@dataclass(eq=False)
class Recordings:
    """Those of a model, by number of nodes, pieces and iterations; one thread at a time uses them."""

    model: Model
    made: dict[tuple[int, int, int], _Recording] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def suit(self, fixed: Tensor, shares: Shares | None) -> bool:
        """Whether a replay is what these nodes need, and nothing in their relaxation depends on values."""
        return fixed.is_cuda and len(fixed) <= MOST and self.model.members is None and shares is None

    def relax(self, rows: Rows, fixed: Tensor, state: State, iterations: int) -> Relaxed:
        """The best bounds after so many iterations, with their multipliers."""
        given = _Inputs(rows, fixed, state)
        nodes = max(LEAST, 1 << (len(fixed) - 1).bit_length())
        key = nodes, len(rows.slopes), iterations
        with self.lock, torch.cuda.device(fixed.device):
            if key not in self.made:
                self.made[key] = _Recording.of(self.model, given.padded(nodes), iterations)
            return self.made[key].replay(given)
