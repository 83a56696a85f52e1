"""Small studies, as plain data."""

from typing import Any

DECODERS = {"AMP": {"kind": "amp", "defectives": "noisy", "tune": True}, "greedy": {"kind": "maximum_neighborhood"}}
NETWORK = {
    "kind": "mlp",
    "hidden": [16],
    "train": {"instances": 400, "validation": 100, "batch": 100, "epochs": 2},
}


def small(**changes: Any) -> dict[str, Any]:
    """A study of two numbers of pools and two designs."""
    return {
        "instances": 60,
        "batch": 20,
        "designs": 2,
        "problem": {
            "design": {"kind": "bernoulli", "pools": 8, "items": 12},
            "prior": {"kind": "bernoulli", "rate": 0.1},
            "noise": {"kind": "sparse_integer", "rate": 0.1, "bound": 1},
        },
        "grid": {"design.pools": [6, 9]},
        "decoders": DECODERS,
        **changes,
    }
