"""One network for any design: its training on random designs, and what it reaches on designs it never saw.

    python benchmarks/any_design.py train --device cuda --minutes 9 --total-minutes 25 --out FOLDER [--resume CHECKPOINT]

`train` simulates on the device: every instance has a design, rates and a noise of its own. The learning rate falls with
the time that all calls together have taken, `--total-minutes`. FOLDER/checkpoint.safetensors, written every minute, has
the weights, their running average, the optimiser's moments and how it was made; FOLDER/log.jsonl has the loss and quick
evaluations. `--tiny` trains a small network for a check on a CPU; `--no-compile` leaves torch.compile out.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Generator, Tensor

from qgt.decoders.neural.messages import LEAST_LOG, Fixed, MessageNetwork, Seen, State
from qgt.learning.optimizers import MOMENTUM, orthogonal
from setting import provenance

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
    centre = torch.where((noise.kind == BINARY) | ((noise.kind == SATURATING) & (y >= noise.cap)), expected.maximum(y), y)
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
        share = (counts / sizes.clamp(min=1)).clamp(1e-6, 1)
        seen = torch.where(counts > 0, share**self.dilution, 0.0)
        return 1 - self.specificity + (self.sensitivity + self.specificity - 1) * seen

    def tables(self, y: Tensor, totals: Tensor, sizes: Tensor) -> Tensor:
        """Log likelihoods (instances, pools, totals)."""
        each = Noise(*(part[..., None] for part in self))
        away, y, sizes = y[..., None] - totals, y[..., None], sizes[..., None]
        wide = 2 * each.bound + 1
        sparse = torch.where(away == 0, 1 - each.errors, 0.0) + torch.where(away.abs() <= each.bound, each.errors / wide, 0)
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
        made = {f"average.{name}": t for name, t in self.average.items()}
        made |= {f"weight.{name}": p.detach() for name, p in self.network.named_parameters()}
        made |= {f"muon.{i}": t for i, t in enumerate(self.momenta)}
        for i, p in enumerate(self.others):
            made |= {f"adam.{i}.{key}": torch.as_tensor(t) for key, t in self.adam.state.get(p, {}).items()}
        return {name: t.detach().cpu().contiguous() for name, t in made.items()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
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
    made = {"width": width, "inside": inside, "seed": options.seed, "arguments": vars(options), **provenance(str(device))}
    print(f"{sum(p.numel() for p in network.parameters()):,} parameters, {made}", flush=True)
    log = (out / "log.jsonl").open("a")

    def note(row: dict[str, Any]) -> None:
        print(row, flush=True)
        log.write(json.dumps(row) + "\n")
        log.flush()

    def save() -> None:
        seconds = earlier + time.perf_counter() - begun
        write_checkpoint(out / "checkpoint.safetensors", optimizer, {**made, "seconds": seconds, "steps": optimizer.steps})

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
        return json.loads(file.metadata()["made"]), {name: file.get_tensor(name) for name in file.keys()}


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
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    train(options)
