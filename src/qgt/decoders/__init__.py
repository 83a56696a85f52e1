"""The decoders, one registry for all: what `qgt decode --decoder NAME` and the conformance tests go through."""

from qgt.decoder import Decoder
from qgt.decoders.greedy import MaximumNeighborhood, Prevalence

DECODERS: dict[str, type[Decoder]] = {
    "maximum_neighborhood": MaximumNeighborhood,
    "prevalence": Prevalence,
}
