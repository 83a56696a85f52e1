"""The example of a prior without a formula: it draws, goes through files, and is refused where a formula is needed."""

from pathlib import Path

import pytest
import torch

import qgt

FILE = Path(__file__).parents[2] / "examples" / "outbreak.py"


@pytest.fixture
def outbreak(no_plugins):
    qgt.load_plugin(FILE)
    spec = {
        "design": {"kind": "column_regular", "pools": 10, "items": 30, "weight": 4, "seed": 0},
        "prior": {"kind": "outbreak:Outbreak", "contacts": 2, "rounds": 3, "transmission": 0.15},
    }
    return qgt.Problem.from_spec(spec)


def test_it_goes_through_a_file(outbreak, tmp_path):
    outbreak.save(tmp_path / "problem.toml")
    assert qgt.Problem.load(tmp_path / "problem.toml").fingerprint == outbreak.fingerprint


def test_infections_spread_along_contacts(outbreak):
    x = outbreak.simulate(3000, generator=torch.Generator().manual_seed(0)).x.double()
    assert bool((x.sum(1) >= 1).all())
    graph = outbreak.prior.graph_of(30)
    assert torch.equal(graph, graph.T)
    together = x.T @ x / len(x)
    contact = graph.bool()
    strangers = ~contact & ~torch.eye(30, dtype=torch.bool)
    assert together[contact].mean() > 1.5 * together[strangers].mean()


def test_decoders_that_need_a_formula_say_so(outbreak):
    for decoder in (qgt.ExactMAP(), qgt.AMP(), qgt.Prevalence()):
        assert "Outbreak is not a sum" in decoder.supports(outbreak) or "only be sampled" in decoder.supports(outbreak)
    assert qgt.COMP().supports(outbreak) is None
