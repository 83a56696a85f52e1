"""qgt: quantitative group testing. Design pools, decode counts, and know when to trust the answer.

Names are imported when first used, so that `qgt --help` need not wait for torch. A public name has one line here, in
`_PUBLIC`. Type checkers read `__init__.pyi`, which `python benchmarks/api.py --write` makes from it.
"""

from importlib import import_module

from qgt.version import __version__ as __version__

_PUBLIC = {
    "decoders.amp": ("AMP",),
    "decoders.belief.decoder": ("BeliefPropagation",),
    "decoders.certificate_file": ("load_certificate", "save_certificate"),
    "decoders.certified.decoder": ("Certified",),
    "decoders.checker": ("Claims", "check_certificate", "check_claims"),
    "decoders.classical": ("COMP", "DD", "SCOMP"),
    "decoders.contract": ("BoundDecoder", "Decode", "Decoder"),
    "decoders.exhaustive": ("Exhaustive",),
    "decoders.gamp": ("GAMP",),
    "decoders.greedy": ("MaximumNeighborhood", "Prevalence"),
    "decoders.highs.exact": ("ExactMAP", "LinearProgram"),
    "decoders.loads.baselines": ("CompLasso", "CompNNLS", "CompNNOMP", "CompSBL", "LoadGAMP"),
    "decoders.loads.posterior": ("LoadPosterior",),
    "decoders.neural.any_design": ("AnyDesign", "Pretrained", "pretrained"),
    "decoders.neural.decoder": ("NeuralDecoder", "load"),
    "decoders.neural.mlp": ("MLP", "ResidualMLP"),
    "decoders.neural.model_file": ("ModelFileError",),
    "decoders.neural.network": ("Architecture",),
    "decoders.neural.record": ("Epoch", "TrainConfig", "Training"),
    "decoders.neural.refining": ("Refining",),
    "decoders.peeling": ("Peeling",),
    "decoders.pooled": ("PooledAMP", "PooledIHT"),
    "decoders.registry": ("DECODERS",),
    "decoders.results": ("Answers", "Decoded", "Evidence", "Proof", "Spans", "Status"),
    "files.plugins": ("Plugin", "load_plugin"),
    "lab.answers.accounts": ("Account", "accounts"),
    "lab.answers.decoding": ("DecodedSheet",),
    "lab.answers.service": ("SheetDecoder",),
    "lab.plan.folder": ("PlanFolder", "read_plan", "write_plan"),
    "lab.plan.planning": ("Candidate", "Plan", "plan"),
    "lab.plan.question": ("Question",),
    "lab.plan.transfers": ("few_transfers",),
    "lab.sheets.counts": ("CountSheet", "read_counts"),
    "lab.sheets.samples": ("Samples",),
    "lab.verdicts": ("Verdict",),
    "learning.run": ("best_threshold",),
    "learning.training": ("Interrupted", "fine_tune", "train", "train_many"),
    "model.categories": ("Categories", "Copies"),
    "model.design": ("Design",),
    "model.factors": ("Factors", "PoolCosts"),
    "model.loads": ("Amount", "CycleThreshold", "Loads"),
    "model.noise": (
        "Binned",
        "Gaussian",
        "Noise",
        "Noiseless",
        "Outliers",
        "PerCategory",
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
    "rounds.choosing": ("NextPools", "next_pools"),
    "study.plan": ("Study",),
    "study.reading": ("Comparison", "StudyResult", "compare_decoders", "study_frame", "study_results"),
    "study.running": ("StudyProgress", "run_study"),
    "trust.confidence": ("Calibrated",),
    "trust.fit": ("FileFit", "Reference", "file_fit", "instance_fit"),
    "trust.metrics": ("Outcomes", "Paired", "Score", "outcomes", "paired", "score"),
    "trust.verification": ("Mismatch", "Swap", "VerificationReport", "verify"),
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'qgt' has no attribute {name!r}")
    value: object = getattr(import_module(f"qgt.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
