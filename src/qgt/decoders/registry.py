"""The decoders, one registry for all: what files, `qgt decode --decoder NAME` and the conformance tests go through."""

import types
from collections.abc import Mapping

from qgt.decoders.amp import AMP
from qgt.decoders.belief.decoder import BeliefPropagation
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.classical import COMP, DD, SCOMP
from qgt.decoders.contract import Decoder
from qgt.decoders.exhaustive import Exhaustive
from qgt.decoders.gamp import GAMP
from qgt.decoders.greedy import MaximumNeighborhood, Prevalence
from qgt.decoders.highs.exact import ExactMAP
from qgt.decoders.highs.linear_program import LinearProgram
from qgt.decoders.loads.baselines import CompLasso, CompNNLS, CompNNOMP, CompSBL, LoadGAMP
from qgt.decoders.loads.posterior import LoadPosterior
from qgt.decoders.peeling import Peeling
from qgt.decoders.pooled import PooledAMP, PooledIHT
from qgt.files import codec
from qgt.model.problem import PARTS

DECODERS: dict[str, type[Decoder]] = {
    "amp": AMP,
    "belief": BeliefPropagation,
    "certified": Certified,
    "comp": COMP,
    "comp_lasso": CompLasso,
    "comp_nnls": CompNNLS,
    "comp_nnomp": CompNNOMP,
    "comp_sbl": CompSBL,
    "dd": DD,
    "exact": ExactMAP,
    "exhaustive": Exhaustive,
    "gamp": GAMP,
    "linear_program": LinearProgram,
    "load_gamp": LoadGAMP,
    "load_posterior": LoadPosterior,
    "maximum_neighborhood": MaximumNeighborhood,
    "peeling": Peeling,
    "pooled_amp": PooledAMP,
    "pooled_iht": PooledIHT,
    "prevalence": Prevalence,
    "scomp": SCOMP,
}
KINDS: codec.Kinds = {**PARTS, Decoder: DECODERS}


def make_decoder(kind: str, options: Mapping[str, str] = types.MappingProxyType({})) -> Decoder:
    """The decoder of a kind, ours or "file:Class" of a plugin, with some of its fields given as texts.

    Example:
        >>> made = make_decoder("certified", {"odds": "10", "certificates": "false"})
        >>> made.odds, made.certificates
        (10.0, False)
        >>> make_decoder("gamp", {"damping": "2"})
        Traceback (most recent call last):
        ValueError: gamp.damping=2.0 is not valid: give a number from 0 to 1.
    """
    decoder: object = codec.decode_options(kind, codec.class_of("decoder", kind, DECODERS), options, KINDS)
    if not isinstance(decoder, Decoder):
        raise ValueError(f"decoder={kind!r} is no decoder: give it the methods supports and bind.")
    return decoder
