"""Examples to try with one click: a plan with counts as a lab would have entered them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
import tempfile, torch
from pathlib import Path

from qgt.web.house import House
from qgt.web.bench import packed
from qgt.web.counting import _table
import qgt


@dataclass(frozen=True)
class Example:
    key: str
    title: str
    words: str
    pools: int = 24


EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        one.key: one
        for one in (
            Example(
                "clear",
                "96 samples, 24 pools",
                "A plate with a few positives and exact counts. Everything is found, and proved.",
            ),
            Example(
                "doubt",
                "Too few pools",
                "The same plate in 12 pools. Some answers come close, and the page says what to test again.",
                12,
            ),
        )
    }
)


def add_example(house: House, example: Example) -> str:
    g = torch.Generator().manual_seed(1)
    design = qgt.Design.column_regular(pools=example.pools, items=96, weight=6, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.03), qgt.SparseInteger(rate=0.05, bound=1))
    x, y = problem.simulate(1, generator=g)
    with tempfile.TemporaryDirectory() as d:
        problem.save(Path(d) / "problem.toml")
        files = packed(Path(d))
    run = house.store.add_run(
        example.title,
        "example",
        {"samples": 96, "pools": example.pools, "design": "quiet-otter", "code": "K7Q2"},
        files,
    )
    vals = y.tolist()
    house.store.submit(
        run,
        "example",
        "",
        _table(["1"], design.pool_names, vals),
        {"names": ["1"], "pools": list(design.pool_names), "values": vals, "notes": []},
    )
    return run
