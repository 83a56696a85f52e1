"""A trained network as a decoder: scores from the network, calls by one threshold for all items (the paper's rule).

How it is written to a file and read back, with nothing in the file trusted, is in `model_file.py`.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from qgt.arguments import whole
from qgt.decoders.contract import BoundDecoder, refuse_unsupported
from qgt.decoders.neural import model_file
from qgt.decoders.neural.heads import (
    Softmax,
    amounts_head,
    has_two_heads,
    network_inputs,
    stored_head,
    which_head,
)
from qgt.decoders.neural.mlp import MLP, ResidualMLP
from qgt.decoders.neural.model_file import ModelFileError
from qgt.decoders.neural.network import MOST_LAYERS, Architecture, Network, built
from qgt.decoders.neural.record import Training
from qgt.decoders.neural.refining import Refining, RefiningStack
from qgt.decoders.parts import through_parts
from qgt.decoders.results import Decoded, Status
from qgt.files import codec, plugins
from qgt.model.problem import Problem, Spec, fingerprint_of, stored_design

# Every network by the name that files and the command line give it.

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


UNTRAINED = (
    "this network was trained without missing counts: leave the instance out, or train one with missing=0.05 "
    "(qgt train --missing 0.05)."
)
INSTANCES_PER_PASS = 8192  # instances per forward pass, so that memory does not grow with the batch


@dataclass(frozen=True, eq=False, repr=False)
class NeuralDecoder:
    """A network trained for one problem, with its threshold; made by `qgt.train`, and tied to that problem.

    `scores` are the network's raw outputs; an item is called defective where its score reaches the threshold. Where
    items have loads the network has a second head, and the result has `amounts`, 0 for items not called. Where items
    have copies or categories, `evidence.values` has the probability of each value and `scores` that of not being 0; an
    item is called 0 unless the log odds of another value against 0 reach the threshold.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=6, items=8, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.1))
        >>> net = qgt.train(problem, qgt.MLP((16,)), qgt.TrainConfig(instances=500, epochs=2), generator=g)
        >>> net.bind(problem)(problem.simulate(3, generator=g).y).x.shape
        torch.Size([3, 8])
    """

    architecture: Architecture
    network: Network
    threshold: float
    spec: Spec  # of the problem it was trained for
    training: Training | None = None  # how it came by its weights; None for one put together by hand
    rounds: int | None = None  # how many a refining network takes, set by `with_rounds`; None: as in training
    own: Problem | None = None  # the problem itself, where the network was trained in this process

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the problem it was trained for."""
        return fingerprint_of(self.spec)

    @property
    def problem(self) -> Problem:
        """The problem it was trained for; that of a loaded network is rebuilt from its spec."""
        return Problem.from_spec(self.spec) if self.own is None else self.own

    def __repr__(self) -> str:
        return f"NeuralDecoder({self.architecture}, threshold={self.threshold:.4g}, problem={self.fingerprint[:12]})"

    def supports(self, problem: Problem) -> str | None:
        """Only the problem it was trained for: for copies and categories, the one of their parts."""
        if problem.in_parts.fingerprint == self.fingerprint:
            return None
        return (
            f"it was trained for problem {self.fingerprint[:12]} and this is {problem.fingerprint[:12]}; "
            "train a network for this one."
        )

    def bind(self, problem: Problem) -> BoundDecoder:
        """Get ready to decode on any device."""
        refuse_unsupported(self, problem)
        if problem.values is not None:
            return through_parts(self, problem, probabilities=isinstance(self.network.head, Softmax))
        copies: dict[torch.device, Network] = {}

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            if y.device not in copies:
                copies[y.device] = copy.deepcopy(self.network).to(y.device).eval()
            outputs = raw_scores(copies[y.device], network_inputs(problem, y))
            scores, head = which_head(outputs, problem.items).to(torch.float64), self.network.head
            calls = (scores >= self.threshold).to(torch.uint8)
            if isinstance(head, Softmax):
                scores, calls = head.marginals(scores), head.calls(scores, self.threshold).to(torch.uint8)
            status = torch.full((len(y),), Status.OK, dtype=torch.uint8, device=y.device)
            amounts = None if problem.loads is None else amounts_head(outputs, problem.loads) * calls
            return Decoded(calls, status, scores, amounts=amounts)

        return BoundDecoder(problem, decode, takes_missing=self.network.missing, without=UNTRAINED)

    def with_rounds(self, rounds: int) -> "NeuralDecoder":
        """The same refining network with another number of rounds: more take longer and find more answers.

        Up to twice the rounds of training they follow each other. With more, the instances whose answers the network
        doubts are tried again, each time with another count doubted, until every count was. The weights and the
        threshold stay. A saved model keeps its number of rounds.
        """
        if not isinstance(self.network, RefiningStack):
            raise ValueError(f"rounds={rounds} has no meaning for {self.architecture}: only Refining has rounds.")
        network = copy.deepcopy(self.network)
        network.repeats = whole("rounds", rounds, least=1, most=MOST_LAYERS)
        return replace(self, network=network, rounds=network.repeats)

    def as_trained(self) -> "NeuralDecoder":
        """The same network with the rounds of its training."""
        return self.with_rounds(self.network.trained) if isinstance(self.network, RefiningStack) else self

    def save(self, path: str | Path) -> None:
        """Write the folder `path` with the model file in it, all or nothing."""
        description = {
            "architecture": describe(self.architecture),
            "problem": self.spec,
            "fingerprint": self.fingerprint,
            "threshold": self.threshold,
            "rounds": self.rounds,
            "missing": self.network.missing,
            "training": codec.encode("training", self.training, Training | None),
        }
        if isinstance(self.network.head, Softmax):
            description["head"] = "softmax"
        plugins.refuse_homeless(description)
        model_file.write_model(path, description, self.network.state_dict())

    def export(self, path: str | Path) -> None:
        """Write an ONNX file that decodes without this library; needs the extra `onnx`.

        Its input `counts` is float32 (instances, pools); it gives `calls`, uint8, and `scores`, float32, both
        (instances, items). Threshold, rounds and the scale of the counts are inside. A missing count is NaN, where the
        network takes them. It does not say which instances are INFEASIBLE. With many rounds it takes longer than here,
        for it takes all of them with every instance.

        For copies and categories `counts` are the reports of one category after those of another (`part_reports`),
        `calls` are values, and `scores` (instances, items, values) are their probabilities.
        """
        if has_two_heads(self.spec):
            raise ValueError("an ONNX file is written for networks of counts only: save a network of loads by `save`.")
        design = stored_design(self.spec["design"])
        head = self.network.head
        items = design.items // head.levels if isinstance(head, Softmax) else design.items
        described = model_file.onnx_facts(self.fingerprint, design.pool_names, design.item_names[:items])
        network = copy.deepcopy(self.network).cpu()
        model_file.write_onnx(Path(path), network, self.threshold, pools=design.pools, described=described)

    @classmethod
    def load(cls, path: str | Path) -> "NeuralDecoder":
        """Read what `save` wrote, from the folder or the file itself."""
        file = model_file.model_path(path)
        description, weights = model_file.read_model(file)
        try:
            return _decoder(description, weights)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise ModelFileError(f"{file}: is not a usable model: {error}") from error


def load(path: str | Path) -> NeuralDecoder:
    """Load a saved network; see `NeuralDecoder.load`.

    Example:
        >>> load("no")
        Traceback (most recent call last):
        qgt.decoders.neural.model_file.ModelFileError: no: cannot be read (No such file or directory); check the path.
    """
    return NeuralDecoder.load(path)


def raw_scores(network: Network, y: Tensor) -> Tensor:
    """A single network's outputs for what it reads, float64 (`heads.network_inputs`): float32, (instances, outputs)."""
    with torch.inference_mode():
        parts = [network(part.to(torch.float32)[None])[0] for part in y.split(INSTANCES_PER_PASS)]
        return torch.cat(parts) if parts else network(y.to(torch.float32)[None])[0]


def _decoder(description: codec.Table, weights: Mapping[str, Tensor]) -> NeuralDecoder:
    """The decoder that a file describes, every field checked against the others."""
    architecture = codec.decode("architecture", description["architecture"], Architecture, NETWORKS)
    spec = {key: codec.as_table(key, part) for key, part in codec.as_table("problem", description["problem"]).items()}
    design = stored_design(spec["design"])
    missing, loads = codec.decode("missing", description["missing"], bool), has_two_heads(spec)
    model_file.check_cost(architecture, weights, design, missing=missing, loads=loads)
    network = built(architecture, design, missing=missing, loads=loads, generator=torch.Generator().manual_seed(0))
    model_file.check_weights(network.state_dict(), weights)
    network.load_state_dict(dict(weights))
    network.head = stored_head(spec, codec.decode("head", description.get("head", "sigmoid"), str))
    if description["fingerprint"] != fingerprint_of(spec):
        raise ValueError("the fingerprint does not belong to the problem")
    threshold = codec.decode("threshold", description["threshold"], float)
    training = description["training"]
    record = None if training is None else codec.decode("training", training, Training)
    net = NeuralDecoder(architecture, network.eval(), threshold, spec, record)
    rounds = description["rounds"]
    return net if rounds is None else net.with_rounds(codec.decode("rounds", rounds, int))
