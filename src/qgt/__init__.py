"""qgt: quantitative group testing. Design pools, decode counts, and know when to trust the answer.

Names are imported when first used, so that `qgt --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qgt.certificate import check_certificate as check_certificate
    from qgt.certificate import load_certificate as load_certificate
    from qgt.certificate import save_certificate as save_certificate
    from qgt.decoder import BoundDecoder as BoundDecoder
    from qgt.decoder import Decode as Decode
    from qgt.decoder import Decoded as Decoded
    from qgt.decoder import Decoder as Decoder
    from qgt.decoder import Ragged as Ragged
    from qgt.decoder import Status as Status
    from qgt.decoders import DECODERS as DECODERS
    from qgt.decoders.amp import AMP as AMP
    from qgt.decoders.certified import Certified as Certified
    from qgt.decoders.exact import ExactMAP as ExactMAP
    from qgt.decoders.exhaustive import Exhaustive as Exhaustive
    from qgt.decoders.gamp import GAMP as GAMP
    from qgt.decoders.greedy import MaximumNeighborhood as MaximumNeighborhood
    from qgt.decoders.greedy import Prevalence as Prevalence
    from qgt.decoders.linear_program import LinearProgram as LinearProgram
    from qgt.decoders.neural import ModelFileError as ModelFileError
    from qgt.decoders.neural import NeuralDecoder as NeuralDecoder
    from qgt.decoders.neural import load as load
    from qgt.design import Design as Design
    from qgt.network import MLP as MLP
    from qgt.network import Architecture as Architecture
    from qgt.network import ResidualMLP as ResidualMLP
    from qgt.noise import Noise as Noise
    from qgt.noise import Noiseless as Noiseless
    from qgt.noise import RoundedGaussian as RoundedGaussian
    from qgt.noise import SparseInteger as SparseInteger
    from qgt.prior import Bernoulli as Bernoulli
    from qgt.prior import FixedWeight as FixedWeight
    from qgt.prior import Households as Households
    from qgt.prior import Prior as Prior
    from qgt.prior import Sampler as Sampler
    from qgt.problem import Instances as Instances
    from qgt.problem import Problem as Problem
    from qgt.scoring import Score as Score
    from qgt.scoring import score as score
    from qgt.study.plan import Study as Study
    from qgt.threshold import best_threshold as best_threshold
    from qgt.training import train as train
    from qgt.training import train_many as train_many
    from qgt.training_run import Epoch as Epoch
    from qgt.training_run import TrainConfig as TrainConfig
    from qgt.verification import Mismatch as Mismatch
    from qgt.verification import Swap as Swap
    from qgt.verification import VerificationReport as VerificationReport
    from qgt.verification import verify as verify

__version__ = "0.1.0"

_PUBLIC = {
    "certificate": ("check_certificate", "load_certificate", "save_certificate"),
    "decoder": ("BoundDecoder", "Decode", "Decoded", "Decoder", "Ragged", "Status"),
    "decoders": ("DECODERS",),
    "decoders.amp": ("AMP",),
    "decoders.certified": ("Certified",),
    "decoders.exact": ("ExactMAP",),
    "decoders.exhaustive": ("Exhaustive",),
    "decoders.gamp": ("GAMP",),
    "decoders.greedy": ("MaximumNeighborhood", "Prevalence"),
    "decoders.linear_program": ("LinearProgram",),
    "decoders.neural": ("ModelFileError", "NeuralDecoder", "load"),
    "design": ("Design",),
    "network": ("MLP", "Architecture", "ResidualMLP"),
    "noise": ("Noise", "Noiseless", "RoundedGaussian", "SparseInteger"),
    "prior": ("Bernoulli", "FixedWeight", "Households", "Prior", "Sampler"),
    "problem": ("Instances", "Problem"),
    "scoring": ("Score", "score"),
    "study.plan": ("Study",),
    "threshold": ("best_threshold",),
    "training": ("train", "train_many"),
    "training_run": ("Epoch", "TrainConfig"),
    "verification": ("Mismatch", "Swap", "VerificationReport", "verify"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'qgt' has no attribute {name!r}")
    value = getattr(import_module(f"qgt.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
