"""Every network by the name that files and the command line give it."""

from qgt.decoders.neural.mlp import MLP, ResidualMLP
from qgt.decoders.neural.network import Architecture
from qgt.decoders.neural.refining import Refining
from qgt.files import codec

ARCHITECTURES: dict[str, type[MLP] | type[ResidualMLP] | type[Refining]] = {
    "mlp": MLP,
    "refining": Refining,
    "residual": ResidualMLP,
}
NETWORKS: codec.Kinds = {Architecture: ARCHITECTURES}
ON_FRESH_DATA = ("refining", "residual")  # networks that are trained on new instances at every step


def describe(architecture: Architecture) -> dict[str, object]:
    """An architecture as plain data: its kind and its fields."""
    return codec.encode_table("architecture", architecture, Architecture, NETWORKS)
