"""The decoders, one registry for all: what `qgt decode --decoder NAME` and the conformance tests go through."""

from qgt.decoder import Decoder
from qgt.decoders.amp import AMP
from qgt.decoders.gamp import GAMP
from qgt.decoders.greedy import MaximumNeighborhood, Prevalence

DECODERS: dict[str, type[Decoder]] = {
    "amp": AMP,
    "gamp": GAMP,
    "maximum_neighborhood": MaximumNeighborhood,
    "prevalence": Prevalence,
}
