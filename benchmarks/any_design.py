"""One network for any design: its training on random designs, and what it reaches on designs it never saw.

    python benchmarks/any_design.py train --device cuda --minutes 9 --total-minutes 25 --out FOLDER [--resume FOLDER]
    python benchmarks/any_design.py ship CHECKPOINT
    python benchmarks/any_design.py limits --processes 12 --minutes 9 -o LIMITS
    python benchmarks/any_design.py measure --device cuda --limits LIMITS [-o results/any_design.json]
    python benchmarks/any_design.py draw                                         # docs/images/any_design.png

`train` simulates on the device: every instance has a design, rates and a noise of its own. The learning rate falls with
the time that all calls together have taken, `--total-minutes`. FOLDER/checkpoint.safetensors, written every minute, has
the weights, their running average, the optimiser's moments and how it was made; FOLDER/log.jsonl has the loss and quick
evaluations. `ship` writes the average weights as the file in the package. `measure` decodes designs that training never
saw, with the shipped weights; `limits`, which needs no GPU, decodes the same instances exactly, and `measure --limits`
counts the network on those that are there. `--tiny` trains a small network to check the script on a CPU;
`--no-compile` leaves torch.compile out.
"""

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Generator, Tensor

import qgt
from qgt.decoders.neural import model_file
from qgt.decoders.neural.any_design import LEAST_LOG, AnyDesign, Fixed, MessageNetwork, OutsideTraining, Seen, State
from qgt.learning.steps import MOMENTUM, orthogonal
from qgt.learning.training import estimated_seconds
from qgt.pictures.figures import CountedPanel, counted_figure, save_figure
from setting import in_processes, provenance, synchronize, write

# Random problems, one for each instance.

WINDOW = 24  # totals of a table
SPARSE, ROUNDED, OUTLIERS, SATURATING, BINARY = range(5)  # noises
SHARES = (0.6, 0.1, 0.08, 0.06, 0.16)
EDGES = torch.tensor(SHARES).cumsum(0)[:-1]


class Shape(NamedTuple):
    """The shape of a batch; instances may have fewer items and pools."""

    items: int
    pools: int
    share: float  # of all steps
    core: bool = False  # near the paper's setting, where the comparison with other decoders is


SHAPES = (
    Shape(100, 40, 0.40, core=True),
    Shape(100, 64, 0.26),
    Shape(200, 96, 0.20),
    Shape(500, 192, 0.14),
)
TINY = (Shape(40, 20, 0.6, core=True), Shape(40, 24, 0.4))


class Drawn(NamedTuple):
    """Instances with what a network is shown of them."""

    seen: Seen
    x: Tensor  # (instances, items)


def entropy(p: Tensor) -> Tensor:
    """Bits of a coin."""
    p = p.clamp(1e-6, 1 - 1e-6)
    return -(p * p.log2() + (1 - p) * (1 - p).log2())


def draw(shape: Shape, n: int, g: Generator) -> Drawn:
    """A design, rates, a noise, statuses and reports for each of n instances."""
    device, full = g.device, shape.items

    def u(low: float | Tensor, high: float | Tensor, *more: int) -> Tensor:
        return low + (high - low) * torch.rand(n, *more, generator=g, device=device)

    def chance(p: float) -> Tensor:
        return u(0, 1) < p

    def by_log(low: float, high: float) -> Tensor:
        return u(math.log(low), math.log(high)).exp()

    kind = torch.bucketize(u(0, 1), EDGES.to(device))
    if shape.core:
        kind = torch.zeros_like(kind)
    binary = kind == BINARY
    items = torch.where(chance(0.5) & (not shape.core), u(0.5, 1.0), 1.0).mul(full).round()
    rate = by_log(0.03, 0.1) if shape.core else torch.where(binary, by_log(0.005, 0.05), by_log(0.01, 0.15))
    errors = u(0.02, 0.18) if shape.core else torch.where(chance(0.15), 0.0, u(0.0, 0.3))
    bound = torch.where(chance(0.1 if shape.core else 0.35), torch.randint(2, 4, (n,), generator=g, device=device), 1)
    sigma, stray = u(0.15, 0.8), by_log(0.003, 0.05)
    density = torch.where(chance(0.5), u(0.05, 0.6), by_log(0.04, 0.5))
    if shape.core:
        density = torch.where(chance(0.5), u(0.4, 0.6), density)
    density = torch.where(binary, (0.7 * by_log(0.5, 1.6) / (rate * items)).clamp(0.03, 0.5), density)
    pools = _pools(kind, items, rate, density, errors, bound, sigma)
    pools = (pools * by_log(1.2, 3.5)).round().clamp(8, shape.pools)
    if shape.core:
        pools = torch.randint(20, shape.pools + 1, (n,), generator=g, device=device).float()

    # The design: entries at random, or equally many in each column.
    has_item = (torch.arange(full, device=device) < items[:, None]).float()
    has_pool = (torch.arange(shape.pools, device=device) < pools[:, None]).float()
    draws = torch.rand(n, shape.pools, full, generator=g, device=device) + 2 * (1 - has_pool)[..., None]
    weight = torch.minimum((density * pools).round().clamp(min=3), pools).long()
    limits = draws.sort(1).values.gather(1, (weight - 1)[:, None, None].expand(-1, 1, full))
    regular = chance(0.4)[:, None, None]
    A = (draws <= torch.where(regular, limits, density[:, None, None])).float()
    A = A * has_item[:, None] * has_pool[..., None]
    sizes = A.sum(2)

    # Rates: one for all items, or one for each; some items nearly settled by what is known about them.
    jitter = torch.randn(n, full, generator=g, device=device) * torch.where(chance(0.5), 0.0, u(0, 1.5))[:, None]
    prior = torch.logit(rate)[:, None] + jitter
    settled = chance(0.15)[:, None] & (u(0, 1, full) < 0.05)
    prior = torch.where(settled, torch.logit(u(0.01, 0.99, full)), prior).clamp(-9, 9)
    x = (u(0, 1, full) < prior.sigmoid()).float() * has_item

    counts = torch.einsum("bmn,bn->bm", A, x)
    expected = torch.einsum("bmn,bn->bm", A, prior.sigmoid())
    noise = Noise(kind[:, None], errors[:, None], bound[:, None], sigma[:, None], stray[:, None], u(0.8, 1.0)[:, None],
                  u(0.9, 1.0)[:, None], torch.where(chance(0.5), 0.0, u(0, 0.3))[:, None],
                  torch.randint(1, 6, (n, 1), generator=g, device=device))  # fmt: skip
    y = noise.sample(counts, sizes, g)
    centre = torch.where(
        (noise.kind == BINARY) | ((noise.kind == SATURATING) & (y >= noise.cap)), expected.maximum(y), y
    )
    first = (centre.round() - WINDOW // 2).clamp(min=0)
    totals = first[..., None] + torch.arange(WINDOW, device=device)
    tables = noise.tables(y, totals, sizes)
    tables = torch.where((totals > sizes[..., None]), -torch.inf, tables)
    tables = (tables - tables.amax(2, keepdim=True)).clamp(min=LEAST_LOG).nan_to_num(LEAST_LOG)
    missing = (u(0, 1, shape.pools) < torch.where(chance(0.15), u(0.0, 0.25), 0.0)[:, None]) | (has_pool == 0)
    tables = torch.where(missing[..., None], 0.0, tables)
    return Drawn(Seen(A, prior * has_item, tables, first, has_item, has_pool), x)


def _pools(
    kind: Tensor, items: Tensor, rate: Tensor, density: Tensor, errors: Tensor, bound: Tensor, sigma: Tensor
) -> Tensor:
    """Roughly how many pools have as many bits as the statuses."""
    spread = density * items * rate * (1 - rate)
    wrong = errors * (2 * bound / (2 * bound + 1))
    noise = entropy(wrong) + wrong * (2 * bound).log2()
    noise = torch.where(kind == ROUNDED, 0.5 * (17.08 * (sigma.square() + 1 / 12)).log2(), noise)
    bits = 0.5 * (17.08 * (spread + 1 / 12)).log2() - noise
    bits = torch.where(kind == SATURATING, 0.7 * bits, bits)
    bits = torch.where(kind == BINARY, 0.6 * entropy((1 - rate) ** (density * items)), bits)
    return items * entropy(rate) / bits.clamp(min=0.2)


class Noise(NamedTuple):
    """A noise for each instance: kind and numbers, (instances, 1)."""

    kind: Tensor
    errors: Tensor
    bound: Tensor
    sigma: Tensor
    stray: Tensor
    sensitivity: Tensor
    specificity: Tensor
    dilution: Tensor
    cap: Tensor

    def sample(self, counts: Tensor, sizes: Tensor, g: Generator) -> Tensor:
        """Reports (instances, pools)."""
        draws = torch.rand(3, *counts.shape, generator=g, device=g.device)
        shift = (draws[1] * (2 * self.bound + 1)).floor() - self.bound
        errors = torch.where((self.kind == SPARSE) | (self.kind >= OUTLIERS), self.errors, 0.0)
        y = counts + torch.where(draws[0] < errors, shift, 0.0)
        rounded = (counts + self.sigma * torch.randn(counts.shape, generator=g, device=g.device)).round()
        y = torch.where(self.kind == ROUNDED, rounded, y)
        anything = (draws[2] * (sizes + 1)).floor()
        y = torch.where((self.kind == OUTLIERS) & (draws[1] < self.stray), anything, y)
        y = torch.where(self.kind == SATURATING, y.minimum(self.cap), y)
        return torch.where(self.kind == BINARY, (draws[2] < self.positive(counts, sizes)).float(), y)

    def positive(self, counts: Tensor, sizes: Tensor) -> Tensor:
        """The chance that a pool is positive."""
        share = (counts / sizes.clamp(min=1)).clamp(1e-6, 1)
        seen = torch.where(counts > 0, share**self.dilution, 0.0)
        return 1 - self.specificity + (self.sensitivity + self.specificity - 1) * seen

    def tables(self, y: Tensor, totals: Tensor, sizes: Tensor) -> Tensor:
        """Log likelihoods (instances, pools, totals)."""
        each = Noise(*(part[..., None] for part in self))
        away, y, sizes = y[..., None] - totals, y[..., None], sizes[..., None]
        wide = 2 * each.bound + 1
        sparse = torch.where(away == 0, 1 - each.errors, 0.0) + torch.where(
            away.abs() <= each.bound, each.errors / wide, 0
        )
        root = each.sigma * math.sqrt(2)
        rounded = (torch.erf((away + 0.5) / root) - torch.erf((away - 0.5) / root)) / 2
        stray = (1 - each.stray) * sparse + each.stray / (sizes + 1)
        # At the cap: the count and its error reach it.
        reach = (each.bound - (each.cap - totals) + 1).clamp(min=0).minimum(wide) / wide
        capped = torch.where(totals >= each.cap, 1 - each.errors, 0.0) + each.errors * reach
        saturated = torch.where(y >= each.cap, capped, sparse)
        positive = each.positive(totals, sizes)
        table = torch.where(each.kind == ROUNDED, rounded, sparse)
        table = torch.where(each.kind == OUTLIERS, stray, table)
        table = torch.where(each.kind == SATURATING, saturated, table)
        table = torch.where(each.kind == BINARY, torch.where(y > 0.5, positive, 1 - positive), table)
        return table.clamp(min=0).log()


# Training.

ROUNDS = 8  # rounds that a step learns from
BEFORE = (0, 0, 6, 12)  # rounds before these, without gradients, in the second half of training
PEAK, MATRIX_PEAK, WARM = 1e-3, 0.01, 0.01
AVERAGE = 0.9995


class Optimizer:
    """Adam, and Muon for the matrices where a rate is given, with a running average of all weights."""

    def __init__(self, network: MessageNetwork, matrix_rate: float | None) -> None:
        self.network, self.matrix_rate = network, matrix_rate
        self.matrices = [] if matrix_rate is None else network.inner_matrices()
        apart = {id(p) for p in self.matrices}
        self.others = [p for p in network.parameters() if id(p) not in apart]
        self.adam = torch.optim.Adam(self.others, lr=PEAK, betas=(0.9, 0.98), fused=True)
        self.momenta = [torch.zeros_like(p) for p in self.matrices]
        self.average = {name: p.detach().clone() for name, p in network.named_parameters()}
        self.steps = 0

    def step(self, share: float) -> None:
        """Move all weights; `share` is how much of the peak's learning rates is left."""
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.adam.param_groups[0]["lr"] = PEAK * share
        self.adam.step()
        with torch.no_grad():
            for matrix, momentum in zip(self.matrices, self.momenta, strict=True):
                assert matrix.grad is not None and self.matrix_rate is not None
                momentum.lerp_(matrix.grad, 1 - MOMENTUM)
                stretch = max(1.0, matrix.shape[1] / matrix.shape[2]) ** 0.5
                moved = orthogonal(matrix.grad.lerp(momentum, MOMENTUM))
                matrix.sub_(moved * (self.matrix_rate * share * stretch))
            kept = min(AVERAGE, 1 - 1 / (0.1 * self.steps + 2))
            names, values = zip(*self.network.named_parameters(), strict=True)
            torch._foreach_lerp_([self.average[name] for name in names], list(values), 1 - kept)
        self.adam.zero_grad()
        for matrix in self.matrices:
            matrix.grad = None
        self.steps += 1

    def tensors(self) -> dict[str, Tensor]:
        """All that a checkpoint has."""
        made = {f"average.{name}": t for name, t in self.average.items()}
        made |= {f"weight.{name}": p.detach() for name, p in self.network.named_parameters()}
        made |= {f"muon.{i}": t for i, t in enumerate(self.momenta)}
        for i, p in enumerate(self.others):
            made |= {f"adam.{i}.{key}": torch.as_tensor(t) for key, t in self.adam.state.get(p, {}).items()}
        return {name: t.detach().cpu().contiguous() for name, t in made.items()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
        """Take over what `tensors` gave."""
        self.steps = steps
        for name, p in self.network.named_parameters():
            p.copy_(tensors[f"weight.{name}"])
            self.average[name].copy_(tensors[f"average.{name}"])
        for i, momentum in enumerate(self.momenta):
            momentum.copy_(tensors[f"muon.{i}"])
        for i, p in enumerate(self.others):
            prefix = f"adam.{i}."
            found = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            self.adam.state[p] = {key: t.to(p.device) for key, t in found.items()}


Round = Callable[[Fixed, State], State]


def loss_of(network: MessageNetwork, one: Round, drawn: Drawn, before: int, g: Generator) -> Tensor:
    """Cross entropy of some rounds, the later the more, after others that are not learned from."""
    seen, x = drawn
    n, items = x.shape
    # Some instances begin elsewhere: later they are tried again from other starts.
    often = (torch.rand(n, 1, generator=g, device=g.device) < 0.35) * torch.rand(n, 1, generator=g, device=g.device)
    start = 3.0 * often * torch.randn(n, items, generator=g, device=g.device)
    fixed, state = network.begin(seen, start)
    with torch.no_grad():
        for _ in range(before):
            state = one(fixed, state)
    # The first of these rounds looks like the others to the compiler, which then compiles one graph.
    state = State(*(part.detach().clone().requires_grad_() for part in state))
    total: Tensor = torch.zeros((), device=x.device)
    for number in range(ROUNDS):
        state = one(fixed, state)
        each = F.binary_cross_entropy_with_logits(state.logits, x, reduction="none") * seen.items
        weight = 1.0 if before else (number + 1) / ROUNDS
        total = total + weight * (each.sum(1) / seen.items.sum(1)).mean() / ROUNDS
    return total


def shapes_in_turn(shapes: tuple[Shape, ...], seed: int) -> Iterator[Shape]:
    """Shapes in random order, in their shares."""
    g = torch.Generator().manual_seed(seed)
    shares = torch.tensor([shape.share for shape in shapes])
    while True:
        yield from (shapes[i] for i in torch.multinomial(shares, 256, replacement=True, generator=g).tolist())


def train(options: argparse.Namespace) -> None:
    begun = time.perf_counter()
    device = torch.device(options.device)
    torch.set_float32_matmul_precision("high")
    shapes = TINY if options.tiny else SHAPES
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    saved = None if options.resume is None else read_checkpoint(Path(options.resume))
    width, inside = (saved[0]["width"], saved[0]["inside"]) if saved else (options.width, options.inside)
    g = Generator(device).manual_seed(options.seed + (saved[0]["steps"] if saved else 0))
    network = MessageNetwork(width=width, inside=inside, generator=g).train()
    optimizer = Optimizer(network, None if options.no_muon else MATRIX_PEAK)
    earlier = 0.0
    if saved:
        optimizer.restore(saved[1], saved[0]["steps"])
        earlier = saved[0]["seconds"]
    one: Round = network.round if options.no_compile else torch.compile(network.round, dynamic=options.dynamic)
    made = {
        "width": width,
        "inside": inside,
        "seed": options.seed,
        "arguments": vars(options),
        **provenance(str(device)),
    }
    print(f"{sum(p.numel() for p in network.parameters()):,} parameters, {made}", flush=True)
    log = (out / "log.jsonl").open("a")

    def note(row: dict[str, Any]) -> None:
        print(row, flush=True)
        log.write(json.dumps(row) + "\n")
        log.flush()

    def save() -> None:
        seconds = earlier + time.perf_counter() - begun
        write_checkpoint(
            out / "checkpoint.safetensors", optimizer, {**made, "seconds": seconds, "steps": optimizer.steps}
        )

    torch._dynamo.config.cache_size_limit = 64
    end = begun + 60 * options.minutes - options.reserve
    saves = looks = time.perf_counter()
    losses: dict[Shape, list[Tensor]] = {shape: [] for shape in shapes}
    first = optimizer.steps
    turns = shapes_in_turn(shapes, options.seed + optimizer.steps)
    for shape in turns:
        now = time.perf_counter()
        if now >= end:
            break
        done = min(1.0, (earlier + now - begun) / (60 * options.total_minutes))
        share = min(1.0, done / WARM + 0.02) * (0.5 + 0.5 * math.cos(math.pi * done)) + 1e-3
        before = BEFORE[optimizer.steps % len(BEFORE)] if done > 0.3 else 0
        n = max(8, options.batch * 100 // shape.items)
        try:
            loss = loss_of(network, one, draw(shape, n, g), before, g)
            loss.backward()
        except Exception as error:
            if one is network.round or isinstance(error, torch.cuda.OutOfMemoryError):
                raise
            print(f"not compiled: {error}", flush=True)
            one = network.round
            optimizer.adam.zero_grad()
            continue
        optimizer.step(share)
        losses[shape].append(loss.detach())
        if optimizer.steps in (first + 1, first + 10, first + 50):
            note({"steps": optimizer.steps, "seconds": round(now - begun), "loss": loss.item()})
        if now - saves > 50:
            save()
            saves = now
        if now - looks > options.look:
            means = {f"{s.items}x{s.pools}": round(torch.stack(v).mean().item(), 5) for s, v in losses.items() if v}
            rate = (optimizer.steps - first) / (now - begun)
            note({"steps": optimizer.steps, "seconds": round(now - begun), "per_second": round(rate, 1), "loss": means})
            losses = {shape: [] for shape in shapes}
            quick_looks(network, optimizer, note, g, options.tiny, short=True)
            looks = time.perf_counter()
    save()
    quick_looks(network, optimizer, note, g, options.tiny, short=False)
    print(f"{optimizer.steps} steps, {time.perf_counter() - begun:.0f} s", flush=True)


def write_checkpoint(path: Path, optimizer: Optimizer, made: dict[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    save_file(optimizer.tensors(), partial, {"made": json.dumps(made)})
    partial.replace(path)


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    with safe_open(path / "checkpoint.safetensors" if path.is_dir() else path, framework="pt") as file:
        return json.loads(file.metadata()["made"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def ship(path: Path, output: Path) -> None:
    """Write the average weights of a checkpoint as the file that the package ships."""
    made, tensors = read_checkpoint(path)
    network = MessageNetwork(width=made["width"], inside=made["inside"], generator=Generator().manual_seed(0))
    network.load_state_dict({name.removeprefix("average."): t for name, t in tensors.items() if name[:8] == "average."})
    shares = dict(zip(("sparse", "rounded", "outliers", "saturating", "binary"), SHARES, strict=True))
    recipe = {
        "script": "benchmarks/any_design.py",
        "steps": made["steps"],
        "seconds": round(made["seconds"]),
        "batch": made["arguments"]["batch"],
        "rounds": ROUNDS,
        "shapes": [list(shape) for shape in SHAPES],
        "noises": shares,
        **{key: made[key] for key in ("seed", "device", "torch", "date")},
    }
    limits = (
        "independent items in training: correlated ones enter by their marginals; pools report totals of at most "
        f"{WINDOW} neighbouring values; triple systems, hypercubes, rows and columns were held out"
    )
    decoder = AnyDesign(network, {"recipe": recipe, "limits": limits})
    text = json.dumps({"format": model_file.MODEL_FORMAT, **decoder.description}, allow_nan=False)
    weights = {name: t.detach().contiguous() for name, t in network.state_dict().items()}
    model_file.write_tensors(output, weights, {"qgt": text, "sha256": model_file.checksum(text, weights)})
    print(f"wrote {output}: {output.stat().st_size:,} bytes, {made['steps']} steps")


# Quick evaluations with the average weights, on new designs.


class Look(NamedTuple):
    """A setting to look at: N, M, density (or the weight of columns), noise."""

    items: int
    pools: int
    density: float = 0.5
    weight: int = 0
    rate: float = 0.06
    errors: float = 0.1


LOOKS = (Look(100, 25), Look(100, 30), Look(100, 35))
MORE_LOOKS = (
    *LOOKS,
    Look(100, 30, weight=8),
    Look(200, 50),
    Look(500, 125),
    Look(500, 125, weight=8),
    Look(1000, 250, weight=8),
    Look(100, 45, rate=0.15),
    Look(100, 35, errors=0.3),
)
TINY_LOOKS = (Look(40, 14), Look(40, 20))


def look_at(look: Look, n: int, g: Generator) -> Drawn:
    """Instances of the paper's kind with a random design each."""
    device = g.device
    draws = torch.rand(n, look.pools, look.items, generator=g, device=device)
    limits = draws.sort(1).values[:, look.weight - 1 : look.weight] if look.weight else look.density
    A = (draws <= limits).float()
    x = (torch.rand(n, look.items, generator=g, device=device) < look.rate).float()
    column = torch.ones(n, 1, device=device)
    noise = Noise(0 * column, look.errors * column, column, column, column, column, column, column, column)
    y = noise.sample(torch.einsum("bmn,bn->bm", A, x), A.sum(2), g)
    first = (y - WINDOW // 2).clamp(min=0)
    tables = noise.tables(y, first[..., None] + torch.arange(WINDOW, device=device), A.sum(2))
    tables = (tables - tables.amax(2, keepdim=True)).clamp(min=LEAST_LOG)
    prior = torch.full_like(x, math.log(look.rate / (1 - look.rate)))
    return Drawn(Seen(A, prior, tables, first, torch.ones_like(x), torch.ones_like(y)), x)


def posterior(seen: Seen, calls: Tensor) -> Tensor:
    """The log probability of calls (instances, items), up to a constant."""
    place = (torch.einsum("bmn,bn->bm", seen.A, calls) - seen.first).long()
    last = seen.tables.shape[2] - 1
    found = seen.tables.gather(2, place.clamp(0, last)[..., None])[..., 0]
    found = torch.where((place >= 0) & (place <= last), found, LEAST_LOG)
    return found.sum(1) + (calls * seen.prior).sum(1)


@torch.no_grad()
def success(network: MessageNetwork, drawn: Drawn, rounds: int, tries: int, g: Generator) -> tuple[float, float, float]:
    """The share of instances that are right: in the last round, in the most probable, in that of several tries."""
    seen, x = drawn
    best, right, first = torch.full((len(x),), -torch.inf, device=x.device), torch.zeros(len(x), device=x.device), 0.0
    last = 0.0
    for number in range(tries):
        start = None if not number else 2.0 * torch.randn(x.shape, generator=g, device=x.device)
        for logits in network.each(seen, rounds, start):
            calls = (logits > 0).float()
            score, same = posterior(seen, calls), (calls == x).all(1).float()
            right = torch.where(score > best, same, right)
            best = score.maximum(best)
            if not number:
                last = same.mean().item()
        if not number:
            first = right.mean().item()
    return last, first, right.mean().item()


def quick_looks(
    network: MessageNetwork, optimizer: Optimizer, note: Callable[[dict[str, Any]], None], g: Generator,
    tiny: bool, *, short: bool,
) -> None:  # fmt: skip
    current = {name: p.detach().clone() for name, p in network.named_parameters()}
    network.load_state_dict(optimizer.average)
    network.eval()
    for look in TINY_LOOKS if tiny else LOOKS if short else MORE_LOOKS:
        n = 200 if tiny else max(200, (1000 if short else 2000) * 100 // look.items)
        tries = 1 if short else 8
        last, first, several = success(network, look_at(look, n, g), 20, tries, g)
        note({"look": look._asdict(), "instances": n, "last": round(last, 4), "best": round(first, 4),
              f"tries{tries}": round(several, 4)})  # fmt: skip
    network.train()
    network.load_state_dict(current)


# What the shipped weights reach.

DESIGNS, INSTANCES, SEED = 8, 250, 7
PAPER = (15, 20, 25, 30, 35)  # pools for 100 items, 10 % of counts off by one
TUNED = (  # problems with networks for one design; the last two are outside of what training saw
    *(f"N = 100, M = {m}" for m in (25, 20, 30)),
    "hypercube of side 5, 125 items, rate 0.01",
    "households of 4, M = 25",
)
LARGEST_EXACT = 500  # items: larger problems are not proved within EXACT seconds
EXACT, TOGETHER = 4.0, 10  # seconds of the exact decoder for an instance; instances of a task
SETTINGS = {"one pass": 0, "24 tries": 24}  # tries of the decoder
BEST = "24 tries"
SPEEDS = ("N = 100, M = 25", "N = 100, M = 35", "N = 100, M = 30, weight 8", "N = 500, M = 125, density 0.5")
PARTS = ("rows", "wrong", "speeds", "tuned")


class Row(NamedTuple):
    """A problem with a new design for each seed."""

    group: str
    label: str
    design: Callable[[Generator], qgt.Design]
    prior: Any
    noise: Any
    missing: float = 0.0

    def problem(self, seed: int) -> qgt.Problem:
        """The problem of a seed."""
        return qgt.Problem(self.design(Generator().manual_seed(seed)), self.prior, self.noise)

    def instances(self, seed: int, number: int) -> tuple[qgt.Problem, Tensor, Tensor]:
        """The problem of a seed with instances, the same at every call."""
        problem, g = self.problem(seed), Generator().manual_seed(1000 + seed)
        x, y = problem.simulate(number, generator=g)
        gone = torch.rand(y.shape, generator=g, dtype=y.dtype) < self.missing
        return problem, x, torch.where(gone, torch.nan, y)


def dense(pools: int, items: int = 100, probability: float = 0.5) -> Callable[[Generator], qgt.Design]:
    return lambda g: qgt.Design.bernoulli(pools=pools, items=items, probability=probability, generator=g)


def regular(pools: int, weight: int, items: int = 100) -> Callable[[Generator], qgt.Design]:
    return lambda g: qgt.Design.column_regular(pools=pools, items=items, weight=weight, generator=g)


def rows() -> list[Row]:
    """All problems: those near the paper's, then sizes, rates, noises, priors, and designs of held-out families."""
    six, paper = qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.1, bound=1)
    found = [Row("paper", f"N = 100, M = {m}", dense(m), six, paper) for m in PAPER]
    found += [Row("weight 8", f"N = 100, M = {m}, weight 8", regular(m, 8), six, paper) for m in (25, 30)]
    found += [Row("density", "N = 100, M = 30, density 0.2", dense(30, probability=0.2), six, paper)]
    found += [
        Row("size", f"N = {n}, M = {m}, density 0.5", dense(m, n), six, paper) for n, m in ((200, 50), (500, 125))
    ]
    sparse = ((200, 48), (500, 115), (1000, 230), (2000, 460))
    found += [Row("size", f"N = {n}, M = {m}, weight 8", regular(m, 8, n), six, paper) for n, m in sparse]
    rates = ((0.01, 12), (0.03, 20), (0.1, 40), (0.15, 50))
    found += [Row("rate", f"rate {r}, M = {m}", dense(m), qgt.Bernoulli(r), paper) for r, m in rates]
    errors = ((0.0, 1, 20), (0.2, 1, 30), (0.3, 1, 35), (0.1, 2, 35), (0.1, 3, 35))
    for rate, bound, m in errors:
        noise = qgt.SparseInteger(rate=rate, bound=bound)
        found.append(Row("noise", f"S/N = {rate}, D = {bound}, M = {m}", dense(m), six, noise))
    found += [
        Row("noise", "rounded Gaussian, sigma 0.4, M = 35", dense(35), six, qgt.RoundedGaussian(sigma=0.4)),
        Row("noise", "Gaussian, sigma 0.3, M = 35", dense(35), six, qgt.Gaussian(sigma=0.3)),
        Row("noise", "1 % outliers, M = 35", dense(35), six, qgt.Outliers(paper, rate=0.01)),
        Row("noise", "capped at 4, M = 40", dense(40), six, qgt.Saturating(cap=4, noise=paper)),
        Row("noise", "none, few, many; weight 8, M = 60", regular(60, 8), qgt.Bernoulli(0.03),
            qgt.Binned(edges=[1, 3])),
        Row("noise", "positive or negative; weight 12, M = 60, rate 0.02", regular(60, 12), qgt.Bernoulli(0.02),
            qgt.PositiveNegative(sensitivity=0.97, specificity=0.99)),
        Row("missing", "10 % of the counts missing, M = 35", dense(35), six, paper, missing=0.1),
        Row("prior", "households of 4, M = 25", dense(25),
            qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6), paper),
        Row("prior", "rate from 1 to 15 %, M = 35", dense(35), qgt.UnknownRate(low=0.01, high=0.15), paper),
    ]  # fmt: skip
    few = qgt.Bernoulli(0.03)
    held: dict[str, qgt.Design] = {
        "triples, 33 pools of 100 items": qgt.Design.steiner_triples(pools=33, items=100),
        "hypercube of side 5, 125 items": qgt.Design.hypercube(side=5, dimensions=3),
        "rows and columns, 8 x 12": qgt.Design.rows_and_columns(rows=8, columns=12),
        "shifted transversal, 96 items": qgt.Design.shifted_transversal(items=96, prime=11, layers=4),
    }
    for label, design in held.items():
        rate = few if "trans" in label or "triples" in label else qgt.Bernoulli(0.01)
        found.append(Row("held out", f"{label}, rate {rate.rate}", lambda g, design=design: design, rate, paper))
    return found


def scored(x: Tensor, calls: Tensor) -> tuple[int, int]:
    return int((x == calls).all(1).sum()), len(x)


def numbers(row: Row, instances: int = INSTANCES) -> int:
    """How many instances of each design: fewer of large ones."""
    return max(20, instances * 100 // max(100, problem_items(row)))


def measure_row(
    row: Row, device: str, designs: int, instances: int, most: int, exact: Sequence["Exact"]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The network, GAMP and belief propagation on the same instances; and the network where the limit is known."""
    decoders: dict[str, Any] = {name: qgt.pretrained(tries=tries) for name, tries in SETTINGS.items()}
    decoders |= {"gamp": qgt.GAMP(), "belief": qgt.BeliefPropagation()}
    right, seconds, total = dict.fromkeys(decoders, 0), dict.fromkeys(decoders, 0.0), 0
    ours: dict[int, Tensor] = {}
    for seed in range(designs):
        problem, x, y = row.instances(SEED + seed, numbers(row, instances))
        x, y = x[:most].to(device), y[:most].to(device)
        total += len(x)
        for name, decoder in decoders.items():
            if decoder.supports(problem) is not None:
                right[name] = -1
                continue
            synchronize(device)
            begun = time.perf_counter()
            result = decoder.bind(problem)(y)
            synchronize(device)
            seconds[name] += time.perf_counter() - begun
            same = (x == result.x).all(1).cpu()
            right[name] += int(same.sum())
            if name == BEST:
                ours[seed] = same
    made = {"group": row.group, "problem": row.label, "instances": total, "designs": designs}
    made["outside"] = [*qgt.pretrained().outside(row.problem(SEED))]
    made["right"] = {name: number for name, number in right.items() if number >= 0}
    made["microseconds"] = {name: round(1e6 * seconds[name] / total) for name in made["right"]}
    print({**made, "rates": {name: round(number / total, 4) for name, number in made["right"].items()}}, flush=True)
    return made, limit_row(row, instances, exact, ours)


def problem_items(row: Row) -> int:
    return row.design(Generator().manual_seed(SEED)).items


class Exact(NamedTuple):
    """Instances of a row that are decoded exactly: how many the exact decoder has right, how many are proved."""

    problem: str
    seed: int
    first: int
    number: int
    instances: int  # drawn together with them
    right: int = -1
    proved: int = -1

    @property
    def key(self) -> tuple[Any, ...]:
        """All but what was found."""
        return tuple(self)[:5]


def limit_row(row: Row, instances: int, exact: Sequence[Exact], ours: Mapping[int, Tensor]) -> dict[str, Any] | None:
    """The limit of a row, and the network on the same instances."""
    own = [one for one in exact if one.problem == row.label and one.instances == numbers(row, instances)]
    own = [one for one in own if one.seed in ours and one.first + one.number <= len(ours[one.seed])]
    if not own:
        return None
    network = sum(int(ours[one.seed][one.first : one.first + one.number].sum()) for one in own)
    return {
        "problem": row.label,
        "instances": sum(one.number for one in own),
        "limit": sum(one.right for one in own),
        "network": network,
        "proved": sum(one.proved for one in own),
    }


def decode_exactly(asked: Exact) -> Exact:
    """In a process of its own."""
    row = next(row for row in rows() if row.label == asked.problem)
    problem, x, y = row.instances(SEED + asked.seed, asked.instances)
    part = slice(asked.first, asked.first + asked.number)
    result = qgt.Certified(time_limit=EXACT, certificates=False).bind(problem)(y[part])
    proved = int((result.status == qgt.Status.PROVED).sum())
    return asked._replace(right=scored(x[part], result.x)[0], proved=proved)


def limits(options: argparse.Namespace) -> None:
    """The exact decoder on the instances of all rows, all rows growing together; goes on where a file is there."""
    small = [row for row in rows() if problem_items(row) <= LARGEST_EXACT]
    asked = []
    for first in range(0, options.instances, TOGETHER):
        for seed in range(options.designs):
            for row in small:
                of = numbers(row, options.instances)
                if first < of:
                    asked.append(Exact(row.label, seed, first, min(TOGETHER, of - first), of))
    path: Path = options.output
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {"measured_on": provenance("cpu"), "rows": []}
    done = {Exact(**one).key for one in stored["rows"]}
    todo = [one for one in asked if one.key not in done]
    ended = in_processes(decode_exactly, todo, processes=options.processes, seconds=60 * options.minutes)
    for number, one in enumerate(ended, 1):
        stored["rows"].append(one._asdict())
        if number % 100 == 0:
            write(path, stored)
    write(path, stored)


def one_design(device: str, seconds: float, row: Row, instances: int = 1000) -> Iterator[dict[str, Any]]:
    """One design: the network as it ships, trained on for it, and networks that were trained for it alone."""
    problem = row.problem(SEED)
    g = Generator(device).manual_seed(SEED)
    x, y = problem.simulate(instances, generator=g)

    def of(name: str, decoder: Any, took: float) -> dict[str, Any]:
        right, total = scored(x, decoder.bind(problem)(y).x)
        made = {"problem": row.label, "network": name, "seconds": round(took), "right": right, "instances": total}
        print(made, flush=True)
        return made

    yield of("pretrained, 24 tries", qgt.pretrained(), 0.0)
    yield of("pretrained, one pass", qgt.pretrained(tries=0), 0.0)
    for _ in range(2):  # the first one starts libraries
        probe = time.perf_counter()
        qgt.fine_tune(problem, qgt.pretrained(), steps=20, generator=g)
        synchronize(device)
    steps = max(20, int(20 * seconds / (time.perf_counter() - probe)))
    begun = time.perf_counter()
    tuned = qgt.fine_tune(problem, qgt.pretrained(), steps=steps, generator=g)
    took = time.perf_counter() - begun
    yield of("fine-tuned, 24 tries", tuned, took)
    yield of("fine-tuned, one pass", replace(tuned, tries=0), took)
    for name, network in (("Refining", qgt.Refining(512, 2, 6)), ("ResidualMLP", qgt.ResidualMLP(512, 6))):
        step, _ = estimated_seconds(problem, network, qgt.TrainConfig.fresh(steps=1000), device=device)
        config = qgt.TrainConfig.fresh(steps=max(100, int(seconds / step)))
        begun = time.perf_counter()
        net = qgt.train(problem, network, config, generator=g)
        yield of(f"{name} for this design", net, time.perf_counter() - begun)


def wrong_design(device: str) -> dict[str, Any]:
    """Counts of one design decoded with another: right answers, and how improbable the answers are."""
    row = next(row for row in rows() if row.label == "N = 100, M = 35")
    problem, x, y = row.instances(SEED, INSTANCES)
    other = row.problem(SEED + 1)
    x, y = x.to(device), y.to(device)
    made: dict[str, Any] = {"problem": row.label, "instances": len(x)}
    for name, claimed in (("own", problem), ("other", other)):
        calls = qgt.pretrained(tries=0).bind(claimed)(y).x
        counts = claimed.design.count(calls)
        made[name] = {
            "right": scored(x, calls)[0],
            "pools_explained": round(float((counts == y).to(torch.float64).mean()), 4),
            "possible": int(claimed.log_joint(calls, y).isfinite().sum()),
        }
    return made


def speeds(device: str, timed: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Microseconds of an instance: many together on a GPU, 40 on a CPU; the best of three."""
    number = 40 if device == "cpu" else 400
    for row in timed:
        problem, _, y = row.instances(SEED, number)
        y = y.to(device)
        for name, tries in SETTINGS.items():
            decode = qgt.pretrained(tries=tries).bind(problem)
            decode(y[:10])
            took = []
            for _ in range(3):
                synchronize(device)
                begun = time.perf_counter()
                decode(y)
                synchronize(device)
                took.append(time.perf_counter() - begun)
            each = round(1e6 * min(took) / number)
            made = {"device": device, "problem": row.label, "setting": name, "microseconds": each}
            if device == "cpu":
                made["threads"] = torch.get_num_threads()
            print(made, flush=True)
            yield made


def measure(options: argparse.Namespace) -> None:
    """Part after part, each kept as soon as it is there; what a file of the same device has is not measured again."""
    warnings.simplefilter("ignore", OutsideTraining)  # stored in the rows
    device = options.device
    found: dict[str, Any] = {"measured_on": {"seed": SEED, **provenance(device)}, "made": dict(qgt.pretrained().made)}
    if options.output.exists():
        stored = json.loads(options.output.read_text("utf-8"))
        found |= stored if stored["measured_on"]["device"] == found["measured_on"]["device"] else {}
    found["parameters"] = sum(p.numel() for p in qgt.pretrained().network.parameters())

    def keep(**more: Any) -> None:
        found.update(more)
        write(options.output, found)

    def rows_too() -> None:
        exact = (
            [Exact(**one) for one in json.loads(options.limits.read_text("utf-8"))["rows"]] if options.limits else []
        )
        chosen = [row for group in options.groups or [""] for row in rows() if group in ("", row.group)]
        done: list[dict[str, Any]] = found.get("rows", [])
        known: list[dict[str, Any]] = found.get("limits", [])
        ended = {row["problem"] for row in done}
        for row in (row for row in chosen if row.label not in ended):
            made, limit = measure_row(row, device, options.designs, options.instances, options.most, exact)
            done.append(made)
            known += [limit] if limit else []
            keep(rows=done, limits=known)

    def each(name: str, made: Iterator[dict[str, Any]]) -> None:
        for one in made:
            keep(**{name: [*found.get(name, []), one]})

    if "rows" in options.parts:
        rows_too()
    if "wrong" in options.parts and "wrong_design" not in found:
        keep(wrong_design=wrong_design(device))
    if "speeds" in options.parts:
        known_speeds = {row["problem"] for row in found.get("speeds", [])}
        each("speeds", speeds(device, [row for row in rows() if row.label in SPEEDS and row.label not in known_speeds]))
    if "tuned" in options.parts:
        done = {row["problem"] for row in found.get("one_design", [])}
        chosen = {row.label: row for row in rows() if row.label in options.problems}
        for label in (label for label in options.problems if label not in done):
            each("one_design", one_design(device, options.seconds, chosen[label]))


# The figure.

RESULTS, IMAGE = Path("results/any_design.json"), Path("docs/images/any_design.png")
DRAWN = {
    "24 tries": "pretrained network",
    "one pass": "pretrained, one pass",
    "gamp": "GAMP",
    "belief": "belief propagation",
}
SIZES = {25: 100, 48: 200, 115: 500, 230: 1000, 460: 2000}  # items by pools, each item in 8 pools


def panels_of(found: Mapping[str, Any], networks: Sequence[Mapping[str, Any]]) -> list[CountedPanel]:
    """Success over the number of pools, with networks for one design beside it; and over the number of items."""
    rows_by = {row["problem"]: row for row in found["rows"]}
    limits_by = {row["problem"]: row for row in found["limits"]}

    def panel(title: str, across: str, labels: Mapping[str, float], **more: Any) -> CountedPanel:
        own = {x: rows_by[label] for label, x in labels.items() if label in rows_by}
        curves = {
            words: [(x, row["right"][name], row["instances"]) for x, row in own.items() if name in row["right"]]
            for name, words in DRAWN.items()
        }
        known = {x: limits_by[label] for label, x in labels.items() if label in limits_by}
        limit = [(x, row["limit"], row["instances"]) for x, row in known.items()]
        return CountedPanel(title, across, curves, limit, **more)

    pools = panel("100 items, density 0.5", "pools M", {f"N = 100, M = {m}": m for m in PAPER})
    tuned = [row for row in found["one_design"] if row["network"] == "fine-tuned, 24 tries"]
    alone = {
        "pretrained, fine-tuned": [
            (m, row["right"], row["instances"]) for m in PAPER for row in tuned if row["problem"] == f"N = 100, M = {m}"
        ]
    }
    for decoder, words in (("refining network", "Refining, for one design"), ("paper's network", "the paper's MLP")):
        own = [row for row in networks if (row.get("setting"), row.get("decoder")) == ("independent", decoder)]
        right = [sum(one[3] for one in row["outcomes"] if one[1] == one[2] == 0) for row in own]
        alone[words] = sorted((row["M"], one, row["instances"]) for row, one in zip(own, right, strict=True))
    pools = replace(pools, curves={**pools.curves, **alone})
    labels = {f"N = {n}, M = {m}, weight 8": n for m, n in SIZES.items()}
    sizes = panel("each item in 8 pools, 0.23 to 0.25 pools for each item", "items N", labels, log=True)
    return [pools, sizes]


def draw_figure() -> None:
    found = json.loads(RESULTS.read_text("utf-8"))
    networks = json.loads(Path("results/networks.json").read_text("utf-8"))["rows"]
    save_figure(counted_figure(panels_of(found, networks)), IMAGE, "png")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_train = verbs.add_parser("train")
    of_train.add_argument("--device", default="cpu")
    of_train.add_argument("--minutes", type=float, default=9.0, help="of this call, all included")
    of_train.add_argument("--total-minutes", type=float, default=25.0, help="of all calls together")
    of_train.add_argument("--reserve", type=float, default=25.0, help="seconds kept for the last evaluation")
    of_train.add_argument("--look", type=float, default=60.0, help="seconds between evaluations")
    of_train.add_argument("--out", required=True)
    of_train.add_argument("--resume")
    of_train.add_argument("--width", type=int, default=128)
    of_train.add_argument("--inside", type=int, default=256)
    of_train.add_argument("--batch", type=int, default=1024, help="instances of 100 items a step")
    of_train.add_argument("--seed", type=int, default=0)
    of_train.add_argument("--dynamic", action="store_true", help="compile once for all shapes")
    of_train.add_argument("--no-compile", action="store_true")
    of_train.add_argument("--no-muon", action="store_true")
    of_train.add_argument("--tiny", action="store_true")
    of_measure = verbs.add_parser("measure")
    of_measure.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    of_measure.add_argument("--groups", nargs="*", default=[], help="some groups of rows, in this order")
    of_measure.add_argument("--designs", type=int, default=DESIGNS)
    of_measure.add_argument("--instances", type=int, default=INSTANCES, help="of each design, for 100 items")
    of_measure.add_argument("--most", type=int, default=INSTANCES, help="the first of them, which are decoded")
    of_measure.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    of_measure.add_argument("--seconds", type=float, default=40.0, help="of each training for one design")
    of_measure.add_argument("--problems", nargs="*", default=TUNED, help="whose designs are trained for")
    of_measure.add_argument("--limits", type=Path, help="what `limits` wrote")
    of_measure.add_argument("-o", "--output", type=Path, default=Path("results/any_design.json"))
    of_limits = verbs.add_parser("limits")
    of_limits.add_argument("--designs", type=int, default=DESIGNS)
    of_limits.add_argument("--instances", type=int, default=INSTANCES, help="of each design, for 100 items")
    of_limits.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    of_limits.add_argument("--minutes", type=float, default=math.inf, help="stop after so many; running again goes on")
    of_limits.add_argument("-o", "--output", type=Path, required=True)
    verbs.add_parser("draw")
    of_ship = verbs.add_parser("ship")
    of_ship.add_argument("checkpoint", type=Path)
    of_ship.add_argument("-o", "--output", type=Path, default=Path("src/qgt/data/any_design.safetensors"))
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    if options.verb == "train":
        train(options)
    elif options.verb == "measure":
        measure(options)
    elif options.verb == "limits":
        limits(options)
    elif options.verb == "draw":
        draw_figure()
    else:
        ship(options.checkpoint, options.output)
