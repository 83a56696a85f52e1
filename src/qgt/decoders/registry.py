"""The decoders, one registry for all: what `qgt decode --decoder NAME` and the conformance tests go through."""

from qgt.decoders.amp import AMP
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import Decoder
from qgt.decoders.exhaustive import Exhaustive
from qgt.decoders.gamp import GAMP
from qgt.decoders.greedy import MaximumNeighborhood, Prevalence
from qgt.decoders.highs.exact import ExactMAP
from qgt.decoders.highs.linear_program import LinearProgram

DECODERS: dict[str, type[Decoder]] = {
    "amp": AMP,
    "certified": Certified,
    "exact": ExactMAP,
    "exhaustive": Exhaustive,
    "gamp": GAMP,
    "linear_program": LinearProgram,
    "maximum_neighborhood": MaximumNeighborhood,
    "prevalence": Prevalence,
}
