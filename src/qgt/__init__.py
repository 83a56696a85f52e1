"""qgt: quantitative group testing. Design pools, decode counts, and know when to trust the answer.

Names are imported when first used, so that `qgt --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qgt.version import __version__ as __version__

if TYPE_CHECKING:
    from qgt.decoders.amp import AMP as AMP
    from qgt.decoders.certified.certificate import check_certificate as check_certificate
    from qgt.decoders.certified.certificate import load_certificate as load_certificate
    from qgt.decoders.certified.certificate import save_certificate as save_certificate
    from qgt.decoders.certified.decoder import Certified as Certified
    from qgt.decoders.contract import BoundDecoder as BoundDecoder
    from qgt.decoders.contract import Decode as Decode
    from qgt.decoders.contract import Decoded as Decoded
    from qgt.decoders.contract import Decoder as Decoder
    from qgt.decoders.contract import Ragged as Ragged
    from qgt.decoders.contract import Status as Status
    from qgt.decoders.exhaustive import Exhaustive as Exhaustive
    from qgt.decoders.gamp import GAMP as GAMP
    from qgt.decoders.greedy import MaximumNeighborhood as MaximumNeighborhood
    from qgt.decoders.greedy import Prevalence as Prevalence
    from qgt.decoders.highs.exact import ExactMAP as ExactMAP
    from qgt.decoders.highs.linear_program import LinearProgram as LinearProgram
    from qgt.decoders.neural.decoder import ModelFileError as ModelFileError
    from qgt.decoders.neural.decoder import NeuralDecoder as NeuralDecoder
    from qgt.decoders.neural.decoder import load as load
    from qgt.decoders.neural.network import MLP as MLP
    from qgt.decoders.neural.network import Architecture as Architecture
    from qgt.decoders.neural.network import ResidualMLP as ResidualMLP
    from qgt.decoders.registry import DECODERS as DECODERS
    from qgt.files.plugins import Plugin as Plugin
    from qgt.files.plugins import load_plugin as load_plugin
    from qgt.learning.run import Epoch as Epoch
    from qgt.learning.run import TrainConfig as TrainConfig
    from qgt.learning.threshold import best_threshold as best_threshold
    from qgt.learning.training import train as train
    from qgt.learning.training import train_many as train_many
    from qgt.model.design import Design as Design
    from qgt.model.noise import Noise as Noise
    from qgt.model.noise import Noiseless as Noiseless
    from qgt.model.noise import RoundedGaussian as RoundedGaussian
    from qgt.model.noise import SparseInteger as SparseInteger
    from qgt.model.prior import Bernoulli as Bernoulli
    from qgt.model.prior import FixedWeight as FixedWeight
    from qgt.model.prior import Households as Households
    from qgt.model.prior import Prior as Prior
    from qgt.model.prior import Sampler as Sampler
    from qgt.model.problem import Instances as Instances
    from qgt.model.problem import Problem as Problem
    from qgt.study.plan import Study as Study
    from qgt.trust.scoring import Score as Score
    from qgt.trust.scoring import score as score
    from qgt.trust.verification import Mismatch as Mismatch
    from qgt.trust.verification import Swap as Swap
    from qgt.trust.verification import VerificationReport as VerificationReport
    from qgt.trust.verification import verify as verify

_PUBLIC = {
    "decoders.certified.certificate": ("check_certificate", "load_certificate", "save_certificate"),
    "decoders.contract": ("BoundDecoder", "Decode", "Decoded", "Decoder", "Ragged", "Status"),
    "decoders.registry": ("DECODERS",),
    "decoders.amp": ("AMP",),
    "decoders.certified.decoder": ("Certified",),
    "decoders.highs.exact": ("ExactMAP",),
    "decoders.exhaustive": ("Exhaustive",),
    "decoders.gamp": ("GAMP",),
    "decoders.greedy": ("MaximumNeighborhood", "Prevalence"),
    "decoders.highs.linear_program": ("LinearProgram",),
    "decoders.neural.decoder": ("ModelFileError", "NeuralDecoder", "load"),
    "files.plugins": ("Plugin", "load_plugin"),
    "model.design": ("Design",),
    "decoders.neural.network": ("MLP", "Architecture", "ResidualMLP"),
    "model.noise": ("Noise", "Noiseless", "RoundedGaussian", "SparseInteger"),
    "model.prior": ("Bernoulli", "FixedWeight", "Households", "Prior", "Sampler"),
    "model.problem": ("Instances", "Problem"),
    "trust.scoring": ("Score", "score"),
    "study.plan": ("Study",),
    "learning.threshold": ("best_threshold",),
    "learning.training": ("train", "train_many"),
    "learning.run": ("Epoch", "TrainConfig"),
    "trust.verification": ("Mismatch", "Swap", "VerificationReport", "verify"),
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
