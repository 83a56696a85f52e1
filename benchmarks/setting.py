"""What the benchmarks share: the paper's setting, and what a result must say about where it was measured."""

import json
import platform
import time
from pathlib import Path
from typing import Any

import torch

import qgt

ITEMS, RATE, BOUND = 100, 0.06, 1  # N, K/N and D of the paper


def paper_problem(*, pools: int, noise: float, seed: int) -> qgt.Problem:
    """The paper's problem with a design of its own for every seed."""
    design = qgt.Design.bernoulli(pools=pools, items=ITEMS, generator=torch.Generator().manual_seed(seed))
    return qgt.Problem(design, qgt.Bernoulli(RATE), qgt.SparseInteger(rate=noise, bound=BOUND))


def provenance(device: str) -> dict[str, Any]:
    """Versions and hardware."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU"
    release = torch.__version__.split("+")[0]  # without the build's suffix
    versions = {"qgt": qgt.__version__, "torch": release, "python": platform.python_version()}
    return {"device": name, "threads": torch.get_num_threads(), "versions": versions, "date": time.strftime("%Y-%m-%d")}


def write(path: Path, results: Any) -> None:
    """Write results as JSON, one line per row so that changes show in a diff."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(f" {json.dumps(key)}: {_lines(value)}" for key, value in results.items())
    path.write_text(f"{{\n{rows}\n}}\n")
    print(f"wrote {path}")


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in value) + "\n ]"
    return json.dumps(value)


def synchronize(device: str) -> None:
    """Wait for the device, so that a clock read next to it means something."""
    if device == "cuda":
        torch.cuda.synchronize()
