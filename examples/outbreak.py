"""An outbreak on a contact graph: a prior that can be drawn from, and that no formula describes.

Whether someone is infected depends on all chains of contacts that lead there, so P(x) is a sum over more histories than
can be counted, and no decoder can compare two answers by it. A network learns to decode such a problem from instances
alone: drawing them is all it takes.

    qgt simulate problem.toml --plugin examples/outbreak.py --instances 1000 -o counts.csv
    qgt train problem.toml --plugin examples/outbreak.py -o runs/outbreak

where problem.toml has

    [prior]
    kind = "outbreak:Outbreak"
    contacts = 2
    rounds = 3
    transmission = 0.15
    seeds = 1
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class Outbreak:
    """Some people bring an infection, which then passes along contacts, round by round.

    Everyone has contacts nearby (the next ones in the order of the items) and one far away, fixed by `graph`.
    """

    contacts: int  # how many neighbours on each side each person meets
    rounds: int  # how long the infection spreads before the test
    transmission: float  # the chance that it passes along one contact in one round
    seeds: int = 1  # how many bring it
    graph: int = 0  # the number of the contact graph

    def sample(self, instances: int, items: int, *, generator: Generator) -> Tensor:
        """Draw outbreaks on the generator's device: (instances, items), uint8."""
        graph = self.graph_of(items).to(generator.device, torch.float64)  # (items, items)
        keys = torch.rand(instances, items, generator=generator, device=generator.device)
        infected = torch.zeros_like(keys, dtype=torch.bool)
        infected.scatter_(1, keys.topk(min(self.seeds, items), dim=1).indices, True)
        for _ in range(self.rounds):
            met = infected.to(torch.float64) @ graph  # how many infected contacts each person has
            draws = torch.rand(infected.shape, dtype=torch.float64, generator=generator, device=generator.device)
            infected |= draws < 1 - (1 - self.transmission) ** met
        return infected.to(torch.uint8)

    def graph_of(self, items: int) -> Tensor:
        """Who meets whom: (items, items), symmetric, 0 or 1."""
        place = torch.arange(items)
        apart = (place[:, None] - place).abs()
        near = torch.minimum(apart, items - apart) <= self.contacts
        far = torch.randperm(items, generator=torch.Generator().manual_seed(self.graph))
        met = near | (place == far[:, None]) | (place[:, None] == far)
        return (met & (apart > 0)).to(torch.uint8)
