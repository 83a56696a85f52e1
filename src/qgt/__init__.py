"""qgt: quantitative group testing. Design pools, decode counts, and know when to trust the answer.

Names are imported when first used, so that `qgt --help` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qgt.version import __version__ as __version__

if TYPE_CHECKING:
    from qgt.decoders.amp import AMP as AMP
    from qgt.decoders.belief.decoder import BeliefPropagation as BeliefPropagation
    from qgt.decoders.certificate_file import load_certificate as load_certificate
    from qgt.decoders.certificate_file import save_certificate as save_certificate
    from qgt.decoders.certified.decoder import Certified as Certified
    from qgt.decoders.checker import Claims as Claims
    from qgt.decoders.checker import check_certificate as check_certificate
    from qgt.decoders.checker import check_claims as check_claims
    from qgt.decoders.classical import COMP as COMP
    from qgt.decoders.classical import DD as DD
    from qgt.decoders.classical import SCOMP as SCOMP
    from qgt.decoders.contract import BoundDecoder as BoundDecoder
    from qgt.decoders.contract import Decode as Decode
    from qgt.decoders.contract import Decoder as Decoder
    from qgt.decoders.exhaustive import Exhaustive as Exhaustive
    from qgt.decoders.gamp import GAMP as GAMP
    from qgt.decoders.greedy import MaximumNeighborhood as MaximumNeighborhood
    from qgt.decoders.greedy import Prevalence as Prevalence
    from qgt.decoders.highs.exact import ExactMAP as ExactMAP
    from qgt.decoders.highs.linear_program import LinearProgram as LinearProgram
    from qgt.decoders.loads.posterior import LoadPosterior as LoadPosterior
    from qgt.decoders.neural.decoder import NeuralDecoder as NeuralDecoder
    from qgt.decoders.neural.decoder import load as load
    from qgt.decoders.neural.mlp import MLP as MLP
    from qgt.decoders.neural.mlp import ResidualMLP as ResidualMLP
    from qgt.decoders.neural.model_file import ModelFileError as ModelFileError
    from qgt.decoders.neural.network import Architecture as Architecture
    from qgt.decoders.neural.record import Epoch as Epoch
    from qgt.decoders.neural.record import TrainConfig as TrainConfig
    from qgt.decoders.neural.record import Training as Training
    from qgt.decoders.neural.refining import Refining as Refining
    from qgt.decoders.peeling import Peeling as Peeling
    from qgt.decoders.registry import DECODERS as DECODERS
    from qgt.decoders.results import Answers as Answers
    from qgt.decoders.results import Decoded as Decoded
    from qgt.decoders.results import Evidence as Evidence
    from qgt.decoders.results import Proof as Proof
    from qgt.decoders.results import Spans as Spans
    from qgt.decoders.results import Status as Status
    from qgt.files.plugins import Plugin as Plugin
    from qgt.files.plugins import load_plugin as load_plugin
    from qgt.lab.answers.accounts import Account as Account
    from qgt.lab.answers.accounts import accounts as accounts
    from qgt.lab.plan.folder import PlanFolder as PlanFolder
    from qgt.lab.plan.folder import read_plan as read_plan
    from qgt.lab.plan.folder import write_plan as write_plan
    from qgt.lab.plan.planning import Candidate as Candidate
    from qgt.lab.plan.planning import Plan as Plan
    from qgt.lab.plan.planning import plan as plan
    from qgt.lab.plan.question import Question as Question
    from qgt.lab.plan.transfers import few_transfers as few_transfers
    from qgt.lab.sheets.counts import CountSheet as CountSheet
    from qgt.lab.sheets.counts import read_counts as read_counts
    from qgt.lab.sheets.samples import Samples as Samples
    from qgt.lab.verdicts import Verdict as Verdict
    from qgt.learning.run import best_threshold as best_threshold
    from qgt.learning.training import Interrupted as Interrupted
    from qgt.learning.training import train as train
    from qgt.learning.training import train_many as train_many
    from qgt.model.design import Design as Design
    from qgt.model.factors import Factors as Factors
    from qgt.model.factors import PoolCosts as PoolCosts
    from qgt.model.loads import Amount as Amount
    from qgt.model.loads import CycleThreshold as CycleThreshold
    from qgt.model.loads import Loads as Loads
    from qgt.model.noise import Binned as Binned
    from qgt.model.noise import Gaussian as Gaussian
    from qgt.model.noise import Noise as Noise
    from qgt.model.noise import Noiseless as Noiseless
    from qgt.model.noise import Outliers as Outliers
    from qgt.model.noise import PerPool as PerPool
    from qgt.model.noise import PositiveNegative as PositiveNegative
    from qgt.model.noise import Reads as Reads
    from qgt.model.noise import Reports as Reports
    from qgt.model.noise import RoundedGaussian as RoundedGaussian
    from qgt.model.noise import Saturating as Saturating
    from qgt.model.noise import SparseInteger as SparseInteger
    from qgt.model.prior import Bernoulli as Bernoulli
    from qgt.model.prior import FactoredPrior as FactoredPrior
    from qgt.model.prior import FixedWeight as FixedWeight
    from qgt.model.prior import Groups as Groups
    from qgt.model.prior import Households as Households
    from qgt.model.prior import ItemCosts as ItemCosts
    from qgt.model.prior import Prior as Prior
    from qgt.model.prior import Sampler as Sampler
    from qgt.model.prior import UnknownLevel as UnknownLevel
    from qgt.model.prior import UnknownRate as UnknownRate
    from qgt.model.problem import Instances as Instances
    from qgt.model.problem import Problem as Problem
    from qgt.rounds.choosing import NextPools as NextPools
    from qgt.rounds.choosing import next_pools as next_pools
    from qgt.study.plan import Study as Study
    from qgt.study.reading import Comparison as Comparison
    from qgt.study.reading import StudyResult as StudyResult
    from qgt.study.reading import compare_decoders as compare_decoders
    from qgt.study.reading import study_results as study_results
    from qgt.study.running import StudyProgress as StudyProgress
    from qgt.study.running import run_study as run_study
    from qgt.trust.confidence import Calibrated as Calibrated
    from qgt.trust.fit import FileFit as FileFit
    from qgt.trust.fit import Reference as Reference
    from qgt.trust.fit import file_fit as file_fit
    from qgt.trust.fit import instance_fit as instance_fit
    from qgt.trust.metrics import Outcomes as Outcomes
    from qgt.trust.metrics import Paired as Paired
    from qgt.trust.metrics import Score as Score
    from qgt.trust.metrics import outcomes as outcomes
    from qgt.trust.metrics import paired as paired
    from qgt.trust.metrics import score as score
    from qgt.trust.verification import Mismatch as Mismatch
    from qgt.trust.verification import Swap as Swap
    from qgt.trust.verification import VerificationReport as VerificationReport
    from qgt.trust.verification import verify as verify

_PUBLIC = {
    "decoders.checker": ("Claims", "check_certificate", "check_claims"),
    "decoders.certificate_file": ("load_certificate", "save_certificate"),
    "decoders.classical": ("COMP", "DD", "SCOMP"),
    "decoders.contract": ("BoundDecoder", "Decode", "Decoder"),
    "decoders.registry": ("DECODERS",),
    "decoders.results": ("Answers", "Decoded", "Evidence", "Proof", "Spans", "Status"),
    "model.factors": ("Factors", "PoolCosts"),
    "decoders.amp": ("AMP",),
    "decoders.belief.decoder": ("BeliefPropagation",),
    "decoders.certified.decoder": ("Certified",),
    "decoders.highs.exact": ("ExactMAP",),
    "decoders.exhaustive": ("Exhaustive",),
    "decoders.gamp": ("GAMP",),
    "decoders.greedy": ("MaximumNeighborhood", "Prevalence"),
    "decoders.highs.linear_program": ("LinearProgram",),
    "decoders.loads.posterior": ("LoadPosterior",),
    "decoders.peeling": ("Peeling",),
    "decoders.neural.decoder": ("NeuralDecoder", "load"),
    "decoders.neural.model_file": ("ModelFileError",),
    "decoders.neural.record": ("Epoch", "TrainConfig", "Training"),
    "files.plugins": ("Plugin", "load_plugin"),
    "model.design": ("Design",),
    "decoders.neural.mlp": ("MLP", "ResidualMLP"),
    "decoders.neural.network": ("Architecture",),
    "decoders.neural.refining": ("Refining",),
    "model.loads": ("Amount", "CycleThreshold", "Loads"),
    "model.noise": (
        "Binned",
        "Gaussian",
        "Noise",
        "Noiseless",
        "Outliers",
        "PerPool",
        "PositiveNegative",
        "Reads",
        "Reports",
        "RoundedGaussian",
        "Saturating",
        "SparseInteger",
    ),
    "model.prior": (
        "Bernoulli",
        "FactoredPrior",
        "FixedWeight",
        "Groups",
        "Households",
        "ItemCosts",
        "Prior",
        "Sampler",
        "UnknownLevel",
        "UnknownRate",
    ),
    "model.problem": ("Instances", "Problem"),
    "lab.answers.accounts": ("Account", "accounts"),
    "lab.sheets.counts": ("CountSheet", "read_counts"),
    "lab.plan.folder": ("PlanFolder", "read_plan", "write_plan"),
    "lab.plan.planning": ("Candidate", "Plan", "plan"),
    "lab.plan.question": ("Question",),
    "lab.sheets.samples": ("Samples",),
    "lab.plan.transfers": ("few_transfers",),
    "lab.verdicts": ("Verdict",),
    "rounds.choosing": ("NextPools", "next_pools"),
    "trust.confidence": ("Calibrated",),
    "trust.fit": ("FileFit", "Reference", "file_fit", "instance_fit"),
    "trust.metrics": ("Outcomes", "Paired", "Score", "outcomes", "paired", "score"),
    "study.plan": ("Study",),
    "study.running": ("StudyProgress", "run_study"),
    "study.reading": ("Comparison", "StudyResult", "compare_decoders", "study_results"),
    "learning.run": ("best_threshold",),
    "learning.training": ("Interrupted", "train", "train_many"),
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
