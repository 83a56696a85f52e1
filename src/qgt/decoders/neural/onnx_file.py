"""A trained network as an ONNX file: counts in, calls and scores out, for programs that have neither torch nor us.

What belongs to decoding is inside: the scale of the counts, missing ones, rounds, and the threshold. What `bind` adds
is not: the file does not know which counts are possible.
"""

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from qgt.decoders.neural.network import Network
from qgt.files.store import replacing

OPSET = 18
EXTRA = "writing ONNX files needs more packages: install them with pip install 'qgt[onnx]'."


class _Decoder(nn.Module):
    """What the file computes."""

    def __init__(self, network: Network, threshold: float) -> None:
        super().__init__()
        self.network, self.threshold = network, threshold

    def forward(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Calls, and the scores they are made of."""
        scores = self.network(counts[None])[0]
        return (scores >= self.threshold).to(torch.uint8), scores


def write(path: Path, network: Network, threshold: float, *, pools: int, described: dict[str, str]) -> None:
    """Write the file at `path`, all or nothing, with some facts about it among its properties."""
    try:
        import onnxscript  # noqa: F401 - what torch needs to export
    except ImportError as error:
        raise ValueError(EXTRA) from error
    example = torch.zeros(3, pools)  # its number of rows is not the file's
    program = torch.onnx.export(
        _Decoder(network, threshold).eval(),
        (example,),
        input_names=["counts"],
        output_names=["calls", "scores"],
        dynamic_shapes={"counts": {0: torch.export.Dim("instances", min=1)}},
        opset_version=OPSET,
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    program.model.metadata_props.update({f"qgt.{key}": value for key, value in described.items()})
    with replacing(path) as file:
        program.save(str(file), external_data=False)


def facts(fingerprint: str, pool_names: tuple[str, ...], item_names: tuple[str, ...]) -> dict[str, str]:
    """What a user of the file needs to know: which problem, and what its columns are."""
    return {"problem": fingerprint, "pools": json.dumps(list(pool_names)), "items": json.dumps(list(item_names))}
