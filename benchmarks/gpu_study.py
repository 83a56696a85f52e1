"""A study on a GPU against the same study on the CPU: the same instances, the same calls, and networks from a stack.

    python benchmarks/gpu_study.py

Needs a GPU, which the tests must not: exits with 1 and says where the counts differ, or prints that they agree.
"""

import sys
import tempfile
from pathlib import Path

from qgt import Study, StudyResult, run_study, study_results
from qgt.study import ensure_stack, network_path, networks_folder

CLASSICAL = {
    "amp_told": {"kind": "amp", "defectives": "true", "tune": True},
    "amp": {"kind": "amp"},
    "gamp": {"kind": "gamp"},
    "maximum_neighborhood": {"kind": "maximum_neighborhood"},
    "exact": {"kind": "exact"},
    "certified": {"kind": "certified", "odds": 1.0, "certificates": False},
}
NETWORK = {"kind": "mlp", "hidden": [64], "train": {"instances": 4000, "validation": 500, "epochs": 3}}


def study(decoders: dict[str, dict[str, object]]) -> Study:
    return Study.from_plain(
        {
            "instances": 400,
            "batch": 200,
            "designs": 2,
            "problem": {
                "design": {"kind": "bernoulli", "pools": 12, "items": 24},
                "prior": {"kind": "bernoulli", "rate": 0.1},
                "noise": {"kind": "sparse_integer", "rate": 0.1, "bound": 1},
            },
            "grid": {"design.pools": [10, 14]},
            "decoders": decoders,
        }
    )


def differences(folder: Path) -> list[str]:
    """Decoders whose counts are not the CPU's, in words."""
    planned, found = study(CLASSICAL), {}
    for device in ("cpu", "cuda"):
        run_study(planned, folder / f"{device}.db", device=device)
        found[device] = study_results(planned, folder / f"{device}.db")
    pairs = zip(found["cpu"], found["cuda"], strict=True)
    return [f"{a.decoder} at {dict(a.point)}: {a.score} / {b.score}" for a, b in pairs if not alike(a, b)]


def alike(a: StudyResult, b: StudyResult) -> bool:
    """Equal calls; but equal proofs of certified ones, where which of two equally probable x comes first is open, and
    equal successes of AMP's, whose runs that never settle end differently where sums are rounded differently.
    """
    if a.decoder == "certified":
        return a.statuses == b.statuses
    return a.score.successes == b.score.successes if a.decoder in ("amp_told", "amp") else a.score == b.score


def stack_is_used(folder: Path) -> bool:
    """Whether a study finds the networks that were trained as one stack, and leaves them as they are."""
    planned, db = study({"network": NETWORK}), folder / "stack.db"
    ensure_stack(networks_folder(db), planned.tasks, device="cuda")
    paths = [network_path(networks_folder(db), task) / "model.safetensors" for task in planned.tasks]
    before = [path.read_bytes() for path in paths]
    run_study(planned, db, device="cuda")
    return before == [path.read_bytes() for path in paths]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        faults = differences(Path(folder))
        if not stack_is_used(Path(folder)):
            faults.append("networks trained as a stack were trained again")
    print("\n".join(faults) or "The GPU's counts are the CPU's, and a study uses the networks of a stack.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
