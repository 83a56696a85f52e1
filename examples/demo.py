"""The main job end to end, in about a minute: the paper's problem, decoders from the floor to the limit on the same
instances, and the pooling matrix read back from the trained network.

    make demo
"""

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import qgt
from qgt.figure import verification_figure
from qgt.table import replacing

EPOCHS = 25


def train_with_bar(problem: qgt.Problem, generator: torch.Generator) -> qgt.NeuralDecoder:
    """A smaller network and fewer epochs than the paper's, so that it takes a minute, not ten."""
    config = qgt.TrainConfig(epochs=EPOCHS, batch=512)
    with Progress(transient=True) as progress:
        task = progress.add_task("training the network", total=EPOCHS)
        return qgt.train(
            problem,
            qgt.MLP.level(3),
            config,
            generator=generator,
            on_epoch=lambda epoch: progress.update(task, completed=epoch.number),
        )


def main() -> None:
    """Simulate, train, decode, score, verify."""
    console = Console()
    generator = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=35, items=100, generator=generator)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.06, bound=1))
    console.print(f"{problem.items} items, 6 % defective, {problem.pools} pooled counts, 6 % of them noisy.")
    network = train_with_bar(problem, generator)
    x, y = problem.simulate(10_000, generator=generator)
    decoders: dict[str, tuple[qgt.Decoder, int]] = {  # and how many instances to decode
        "prior alone (the floor)": (qgt.Prevalence(), 10_000),
        "maximum neighborhood": (qgt.MaximumNeighborhood(), 10_000),
        f"network (level 3, {EPOCHS} epochs)": (network, 10_000),
        "GAMP": (qgt.GAMP(), 10_000),
        "AMP, scanning K": (qgt.AMP(), 10_000),
        "exact MAP (the limit)": (qgt.ExactMAP(time_limit=5.0), 200),
    }
    sheet = Table("decoder", title="Held-out instances, the same for all")
    for column in ("instances", "success rate", "95 % interval", "F1"):
        sheet.add_column(column, justify="right")
    for name, (decoder, instances) in decoders.items():
        score = qgt.score(x[:instances], decoder.bind(problem)(y[:instances]).x)
        low, high = score.interval()
        rate, interval = f"{score.success_rate:.3f}", f"{low:.3f} - {high:.3f}"
        sheet.add_row(name, f"{instances:,}", rate, interval, f"{score.f1:.3f}")
    console.print(sheet)
    report = qgt.verify(network, problem, estimator="regression", generator=generator)
    console.print(f"Read back from the network: {report.verdict}")
    with replacing("out/demo/verification.png") as path:
        verification_figure(report).savefig(path, dpi=150, format="png")
    console.print("Figure: out/demo/verification.png")


if __name__ == "__main__":
    main()
