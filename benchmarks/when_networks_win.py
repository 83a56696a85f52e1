"""Where a network beats formulas, and where it does not: households, an outbreak without a formula, independent items.

    python benchmarks/when_networks_win.py train --device cuda --seconds 55 --settings households
    python benchmarks/when_networks_win.py exact --instances 400        # the limit; MAP with independent items
    python benchmarks/when_networks_win.py networks --instances 400     # the trained ones, on the same instances
    python benchmarks/when_networks_win.py draw                         # docs/images/when_networks_win.png

N = 100, 10 % of the counts noisy, one random design for each M. All decoders of a setting and an M decode the same
instances. Rows go into results/networks.json one by one, in the place of older ones; `train` saves its networks in
--folder, and leaves out those that are there.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import qgt
from networks import HOUSEHOLDS, RESULTS, SEED, save
from qgt.learning.training import estimated_seconds, limit_decoder
from qgt.pictures.figures import curves_figure, save_figure, time_frontier_figure
from qgt.study import StudyResult
from setting import ITEMS, paper_problem, provenance, synchronize

FIGURES = Path("docs/images")
POOLS = {"households": (12, 14, 16, 18, 20, 22, 25), "outbreak": (10, 12, 14, 16, 18, 20), "independent": (20, 25, 30)}
PAPERS, REFINING, EXACT, WRONG = "paper's network", "refining network", "exact MAP", "MAP, independent items"
NETWORK = qgt.Refining(1024, 2, 4)
LONGER = 12  # rounds at decoding time


def outbreak() -> Any:
    """About nine infected people of a hundred, all near one source: a prior that can only be drawn from."""
    plugin = qgt.load_plugin(Path(__file__).resolve().parents[1] / "examples" / "outbreak.py")
    return plugin.classes["Outbreak"](contacts=2, rounds=2, transmission=0.4, seeds=1)


def problem(setting: str, pools: int) -> qgt.Problem:
    """The problem as it is."""
    usual = paper_problem(pools=pools, noise=0.1, seed=SEED)
    if setting == "independent":
        return usual
    return qgt.Problem(usual.design, HOUSEHOLDS if setting == "households" else outbreak(), usual.noise)


def as_if_independent(real: qgt.Problem) -> qgt.Problem:
    """The same problem with every item's own rate, measured, and nothing else known of the prior."""
    x = real.prior.sample(200_000, ITEMS, generator=torch.Generator().manual_seed(SEED + 5))
    rates = x.double().mean(0).clamp(1e-6, 0.5)
    return qgt.Problem(real.design, qgt.Bernoulli(rates.tolist()), real.noise)


def train(setting: str, arguments: argparse.Namespace) -> None:
    """The paper's networks as one stack, on its data sizes, and a refining one for each M, for a given time."""
    device, folder = arguments.device, arguments.folder
    pools = arguments.pools or POOLS[setting]
    paths = {m: folder / f"{setting}-{m}-paper" for m in pools}
    todo = [m for m in pools if not paths[m].exists()]
    if todo:
        config = qgt.TrainConfig(epochs=arguments.epochs)
        generator = torch.Generator(device).manual_seed(SEED)
        nets = qgt.train_many([problem(setting, m) for m in todo], qgt.MLP.level(5), config, generator=generator)
        for m, net in zip(todo, nets, strict=True):
            net.save(paths[m])
    network = qgt.Refining(arguments.width, arguments.blocks, arguments.rounds)
    for m in pools:
        path, real = folder / f"{setting}-{m}-refining", problem(setting, m)
        if path.exists():
            continue
        settings: dict[str, Any] = {"batch": arguments.batch, "learning_rate": 1e-3, "matrix_rate": 0.02}
        trial = qgt.TrainConfig.fresh(steps=1000, **settings)
        step, _ = estimated_seconds(real, network, trial, device=device)
        config = qgt.TrainConfig.fresh(steps=max(100, int(0.96 * arguments.seconds / step)), **settings)
        start = time.perf_counter()
        net = qgt.train(real, network, config, generator=torch.Generator(device).manual_seed(m))
        synchronize(device)
        net.save(path)
        rate = qgt.Score(ITEMS, net.training.test).success_rate
        print(f"{path}: {config.total_steps} steps, {time.perf_counter() - start:.0f} s: {rate:.4f}", flush=True)


def exact(setting: str, m: int, arguments: argparse.Namespace) -> None:
    """The limit where there is one, and the most probable answer for somebody who thinks that items are independent."""
    real = problem(setting, m)
    decoders = {EXACT: (limit_decoder(real, arguments.time_limit), real)}
    if setting != "independent":
        other = as_if_independent(real)
        decoders[WRONG] = (limit_decoder(other, arguments.time_limit), other)
    for name, (decoder, bound_to) in decoders.items():
        if decoder is not None:  # nobody decodes an outbreak exactly
            measure(setting, m, name, decoder.bind(bound_to), arguments)


def networks(setting: str, m: int, arguments: argparse.Namespace) -> None:
    """The networks that were trained, on the instances of the others."""
    for name, key in ((PAPERS, "paper"), (REFINING, "refining")):
        path = arguments.folder / f"{setting}-{m}-{key}"
        if path.exists():
            net = qgt.load(path)
            if isinstance(net.architecture, qgt.Refining):
                net = net.with_rounds(LONGER)
            trained = {"network": str(net.architecture), "training_seconds": round(net.training.seconds, 1)}
            trained["trained_on"] = net.training.made_on["device"]
            measure(setting, m, name, net.bind(problem(setting, m)), arguments, trained)


def measure(
    setting: str,
    m: int,
    name: str,
    decode: qgt.Decode,
    arguments: argparse.Namespace,
    more: dict[str, Any] | None = None,
) -> None:
    """Decode the instances of a setting and an M, and store what became of them."""
    x, y = problem(setting, m).simulate(arguments.instances, generator=torch.Generator().manual_seed(1000 * m + SEED))
    start = time.perf_counter()
    result = decode(y)
    seconds = time.perf_counter() - start
    score = qgt.score(x, result.x)
    proved = int((result.status == qgt.Status.PROVED).sum())
    print(f"{setting}, M = {m}, {name}: {score.success_rate:.4f}, {proved} proved, {seconds:.1f} s", flush=True)
    save(
        {
            "part": "win",
            "name": f"{setting} {m} {name}",
            "device": provenance("cpu")["device"],
            "setting": setting,
            "M": m,
            "decoder": name,
            "instances": len(x),
            "proved": proved,
            "seconds": round(seconds, 3),
            "outcomes": score.to_plain()["outcomes"],
            **(more or {}),
            "measured_on": provenance("cpu"),
        }
    )


def results(rows: list[dict[str, Any]]) -> list[StudyResult]:
    """The rows as a study would have them, for the figure."""
    found = []
    for row in sorted(rows, key=lambda row: (list(POOLS).index(row["setting"]), row["M"])):
        score = qgt.Score.from_plain({"items": ITEMS, "outcomes": row["outcomes"]})
        statuses = {"PROVED": row["proved"], "OK": row["instances"] - row["proved"]}
        point = {"design.pools": row["M"], "prior": row["setting"]}
        name, limit = row["decoder"], row["decoder"] == EXACT
        found.append(StudyResult(point, name, name, limit, 1, score, statuses, row["seconds"], True))
    return found


def draw() -> None:
    """The figures, from the results alone."""
    rows = json.loads(RESULTS.read_text())["rows"]
    won = results([row for row in rows if row["part"] == "win"])
    save_figure(curves_figure(won), FIGURES / "when_networks_win.png", "png")
    scores, times = {}, {}
    for row in rows:
        if row["part"] != "rounds" or row["name"] != "M25" or "CPU" not in row["device"]:
            continue
        points = {name: tuple(values) for name, values in row["instances_right_microseconds"].items()}
        for rounds, right, microseconds in row["rounds_right_microseconds"]:
            if rounds in (1, 2, 5, 20, 100):
                name = f"refining, {rounds} round{'s' if rounds > 1 else ''}"
                points[name] = (row["instances"], right, microseconds)
        for name, (instances, right, microseconds) in points.items():
            scores[name] = qgt.Score(ITEMS, {(1, 0, 0): right, (0, 1, 1): instances - right})
            times[name] = microseconds
    if scores:
        save_figure(time_frontier_figure(scores, times, limit="certified"), FIGURES / "networks_frontier.png", "png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("train", "exact", "networks", "draw"))
    parser.add_argument("--settings", nargs="*", choices=list(POOLS), default=["households", "outbreak"])
    parser.add_argument("--pools", type=int, nargs="*", help="instead of each setting's own")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=55.0, help="of training, for each refining network")
    parser.add_argument("--epochs", type=int, default=300, help="of the paper's networks, at most")
    parser.add_argument("--batch", type=int, default=8192)
    for key in ("width", "blocks", "rounds"):
        parser.add_argument(f"--{key}", type=int, default=getattr(NETWORK, key))
    parser.add_argument("--instances", type=int, default=400)
    parser.add_argument("--time-limit", type=float, default=60.0, help="of exact decoders, seconds per instance")
    parser.add_argument("--folder", type=Path, default=Path("runs/when_networks_win"))
    arguments = parser.parse_args()
    if arguments.part == "draw":
        return draw()
    for setting in arguments.settings:
        if arguments.part == "train":
            train(setting, arguments)
            continue
        for m in arguments.pools or POOLS[setting]:
            (exact if arguments.part == "exact" else networks)(setting, m, arguments)
    return None


if __name__ == "__main__":
    main()
