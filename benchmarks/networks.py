"""Refining networks: how often they are right, for how much training, and by rounds.

    python benchmarks/networks.py train --device cuda --seconds 150 --recipes M25 M25-wide M25-rounds M25-adam
    python benchmarks/networks.py train --device cuda --seconds 500 --recipes M25
    python benchmarks/networks.py retest --recipes M25            # networks of runs/networks, on new instances
    python benchmarks/networks.py rounds [--device cuda]          # 1 to 200 rounds of them

`--seconds` is the training time of each recipe, whatever the machine: its steps are counted by a probe. Results are
written to results/networks.json after every row; a row replaces an older one of the same part, name and device. The
networks are saved in --folder; `retest` puts what they find now into the rows of their training. `--width`, `--blocks`
and so on change all recipes of a call, to try one out; give `--suffix` then, so that the row has a name of its own.
"""

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import qgt
from qgt.learning.training import estimated_seconds
from qgt.trust.verification import ESTIMATORS
from setting import paper_problem, provenance, synchronize, write

RESULTS = Path("results/networks.json")
SEED = 31  # of designs: the same as in the comparison of all decoders
TEST = 40_000  # instances
HOUSEHOLDS = qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6)
ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 60, 100, 200)


@dataclass(frozen=True)
class Recipe:
    """What to train, and for which problem; the number of steps follows from the time."""

    pools: int
    network: qgt.Architecture
    households: bool = False
    batch: int = 8192
    learning_rate: float = 1e-3
    matrix_rate: float | None = 0.02
    longer: int = 100  # rounds at decoding time, beside those of training

    def problem(self) -> qgt.Problem:
        """The paper's, or the same with households."""
        problem = paper_problem(pools=self.pools, noise=0.1, seed=SEED)
        return qgt.Problem(problem.design, HOUSEHOLDS, problem.noise) if self.households else problem

    def config(self, steps: int) -> qgt.TrainConfig:
        """How to train it in so many steps."""
        return qgt.TrainConfig.fresh(
            steps=steps, batch=self.batch, learning_rate=self.learning_rate, matrix_rate=self.matrix_rate
        )


RECIPES = {
    "M25": Recipe(25, qgt.Refining(1024, 3, 5)),
    "M25-wide": Recipe(25, qgt.Refining(2048, 1, 5)),
    "M25-rounds": Recipe(25, qgt.Refining(1024, 2, 8)),
    "M25-adam": Recipe(25, qgt.Refining(1024, 3, 5), matrix_rate=None),
    "M25-residual": Recipe(25, qgt.ResidualMLP(1024, 10)),
    "M22": Recipe(22, qgt.Refining(1024, 3, 5), longer=200),
    "M35": Recipe(35, qgt.Refining(1024, 3, 4), longer=60),
    "households-M20": Recipe(20, qgt.Refining(1024, 3, 4), households=True),
}


def main() -> None:
    arguments = parsed()
    if arguments.part == "train":
        for name in arguments.recipes or RECIPES:
            train(name, changed(RECIPES[name], arguments), arguments)
    elif arguments.part == "retest":
        for name in arguments.recipes or RECIPES:
            if (arguments.folder / f"{name}{arguments.suffix}").exists():
                retest(name, arguments)
    else:
        for name in arguments.recipes or ("M25", "M35", "households-M20"):
            by_rounds(name, arguments)


def train(name: str, recipe: Recipe, arguments: argparse.Namespace) -> None:
    """Train a recipe for its time, test it on new instances, and read the design back."""
    device, problem = arguments.device, recipe.problem()
    step, _ = estimated_seconds(problem, recipe.network, recipe.config(1000), device=device)
    # What is left of the time goes to a hundred validations.
    config = recipe.config(max(100, int(0.96 * arguments.seconds / step)))
    generator = torch.Generator(device).manual_seed(arguments.seed)
    print(f"{name}{arguments.suffix}: {recipe.network}, {config.total_steps} steps of {1000 * step:.2f} ms", flush=True)
    synchronize(device)
    start = time.perf_counter()
    net = qgt.train(problem, recipe.network, config, generator=generator, on_epoch=told)
    synchronize(device)
    seconds = time.perf_counter() - start
    net.save(arguments.folder / f"{name}{arguments.suffix}")
    outcomes = tested(net, recipe.longer, arguments.instances or TEST, generator)
    errors = {e: qgt.verify(net, problem, estimator=e, generator=generator).error_percent for e in ESTIMATORS}
    print(f"  {seconds:.0f} s; error of A, %: {errors}", flush=True)
    save(
        {
            "part": "train",
            "name": f"{name}{arguments.suffix}",
            "device": provenance(device)["device"],
            "M": recipe.pools,
            "prior": "households" if recipe.households else "independent",
            "network": str(recipe.network),
            "parameters": recipe.network.parameters(pools=problem.pools, items=problem.items),
            "steps": config.total_steps,
            "batch": recipe.batch,
            "learning_rate": recipe.learning_rate,
            "matrix_rate": recipe.matrix_rate,
            "seed": arguments.seed,
            "seconds": round(seconds, 1),
            "success_by_epoch": [round(epoch.success_rate, 4) for epoch in net.training.history[9::10]],
            "tests": outcomes,
            "error_percent": {key: round(value, 4) for key, value in errors.items()},
            "measured_on": provenance(device),
        }
    )


def tested(net: qgt.NeuralDecoder, longer: int, instances: int, generator: torch.Generator) -> dict[str, Any]:
    """What becomes of new instances, as trained and with more rounds, which the key names."""
    problem = net.problem
    x, y = problem.simulate(instances, generator=generator)
    nets = {"as trained": net}
    if isinstance(net.architecture, qgt.Refining):
        nets[f"{longer} rounds"] = net.with_rounds(longer)
    scores = {key: qgt.score(x, one.bind(problem)(y).x) for key, one in nets.items()}
    for key, score in scores.items():
        print(f"  {key}: {score}", flush=True)
    return {key: score.to_plain()["outcomes"] for key, score in scores.items()}


def retest(name: str, arguments: argparse.Namespace) -> None:
    """Test a saved network again, and put what it found into the row of its training."""
    longer, name = RECIPES[name].longer, name + arguments.suffix
    net = qgt.load(arguments.folder / name)
    trained_on = net.training.made_on["device"]
    rows = [row for row in stored() if (row["part"], row["name"], row["device"]) == ("train", name, trained_on)]
    if not rows:
        raise SystemExit(f"{RESULTS} has no row for the training of {name} on {trained_on}: train it again.")
    print(f"{name}:", flush=True)
    generator = torch.Generator(arguments.device).manual_seed(SEED + 3)
    outcomes = tested(net, longer, arguments.instances or TEST, generator)
    save({**rows[0], "tests": outcomes, "tested_on": provenance(arguments.device)})


def by_rounds(name: str, arguments: argparse.Namespace) -> None:
    """Success and time of a decode for 1 to 200 rounds, and of others in the same run, on the same instances."""
    name += arguments.suffix
    net = qgt.load(arguments.folder / name)
    problem = net.problem
    x, y = problem.simulate(arguments.instances or 20_000, generator=torch.Generator().manual_seed(SEED + 1))
    x, y = x.to(arguments.device), y.to(arguments.device)
    rows = [[rounds, *timed(net.with_rounds(rounds), problem, x, y, arguments.device)[1:]] for rounds in ROUNDS]
    for rounds, right, microseconds in rows:
        print(f"{name}, {rounds} rounds: {right / len(y):.4f}, {microseconds:.2f} us", flush=True)
    others = {}
    for key, decoder, most in (
        ("AMP, scanning K", qgt.AMP(), len(y)),
        ("GAMP", qgt.GAMP(), len(y)),
        ("certified", qgt.Certified(odds=1.0, certificates=False), 500),
    ):
        if decoder.supports(problem) is None:
            others[key] = timed(decoder, problem, x[:most], y[:most], arguments.device)
            print(f"{name}, {key}: {others[key]}", flush=True)
    device = provenance(arguments.device)["device"]
    found = {"part": "rounds", "name": name, "device": device, "instances": len(y), "rounds_right_microseconds": rows}
    save({**found, "instances_right_microseconds": others, "measured_on": provenance(arguments.device)})


def timed(
    decoder: qgt.Decoder, problem: qgt.Problem, x: torch.Tensor, y: torch.Tensor, device: str
) -> tuple[int, int, float]:
    """How many instances, how many of them right, and microseconds for each."""
    decode = decoder.bind(problem)
    decode(y[:100])  # warm
    synchronize(device)
    start = time.perf_counter()
    calls = decode(y).x
    synchronize(device)
    return len(y), right(x, calls), round(1e6 * (time.perf_counter() - start) / len(y), 3)


def right(x: torch.Tensor, calls: torch.Tensor) -> int:
    """How many instances are decoded without error."""
    return int((x == calls).all(1).sum())


def told(epoch: qgt.Epoch) -> None:
    """Say now and then how far a training is."""
    if epoch.number % 10 == 0:
        print(f"  {epoch.number} %: loss {epoch.validation_loss:.4f}, success {epoch.success_rate:.4f}", flush=True)


def save(row: dict[str, Any]) -> None:
    """Put a row in the place of an older one of the same part, name and device, or at the end."""
    rows = stored()
    same = [all(old[key] == row[key] for key in ("part", "name", "device")) for old in rows]
    kept = [old for old, replaced in zip(rows, same, strict=True) if not replaced]
    write(RESULTS, {"setting": {"N": 100, "K/N": 0.06, "S/N": 0.1, "design": SEED}, "rows": [*kept, row]})


def stored() -> list[dict[str, Any]]:
    """All rows that were measured until now."""
    return json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []  # type: ignore[no-any-return]


def changed(recipe: Recipe, arguments: argparse.Namespace) -> Recipe:
    """A recipe with what the command line says about it."""
    named = ("width", "blocks", "rounds")
    sizes = {key: getattr(arguments, key) for key in named if getattr(arguments, key) is not None}
    if sizes:
        recipe = replace(recipe, network=replace(recipe.network, **sizes))  # type: ignore[type-var]
    rates = {key: getattr(arguments, key) for key in ("batch", "learning_rate", "matrix_rate")}
    return replace(recipe, **{key: value for key, value in rates.items() if value is not None})


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("train", "retest", "rounds"))
    parser.add_argument("--recipes", nargs="*", choices=list(RECIPES))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=500.0, help="of training, for each recipe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/networks"))
    parser.add_argument("--instances", type=int, help="to decode; by default 20000 for rounds, else 40000")
    parser.add_argument("--suffix", default="", help="of the names under which results are stored")
    for name, kind in (("width", int), ("blocks", int), ("rounds", int), ("batch", int)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--matrix-rate", type=float)
    return parser.parse_args()


if __name__ == "__main__":
    main()
