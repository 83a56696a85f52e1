"""Certificates as files: they come back as they were, and a damaged or foreign file is refused by name."""

import json
import lzma
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import qgt


def solved(pools: int = 10) -> tuple[qgt.Problem, torch.Tensor, qgt.Decoded]:
    g = torch.Generator().manual_seed(0)
    problem = qgt.Problem(
        qgt.Design.bernoulli(pools=pools, items=20, generator=g), qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1)
    )
    y = problem.simulate(15, generator=g).y
    return problem, y, qgt.Certified().bind(problem)(y)


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    problem, y, result = solved()
    qgt.save_certificate(tmp_path / "proof", problem, y, result)
    loaded = qgt.load_certificate(tmp_path / "proof", problem, y)
    assert torch.equal(loaded.x, result.x) and torch.equal(loaded.status, result.status)
    assert loaded.proof.odds == 100.0
    answers, before = loaded.evidence.alternatives, result.evidence.alternatives
    assert torch.equal(answers.x, before.x)
    torch.testing.assert_close(answers.log_joint, before.log_joint)
    torch.testing.assert_close(answers.probability, before.probability)
    assert torch.equal(loaded.evidence.complete, result.evidence.complete)
    assert torch.equal(loaded.proof.spans.ends, result.proof.spans.ends)
    assert torch.equal(loaded.evidence.alternatives.spans.ends, result.evidence.alternatives.spans.ends)
    assert bool(qgt.check_certificate(problem, y, loaded).all())


def test_a_certificate_for_another_problem_is_refused(tmp_path: Path) -> None:
    problem, y, result = solved()
    qgt.save_certificate(tmp_path / "proof", problem, y, result)
    other, counts, _ = solved(pools=11)
    with pytest.raises(ValueError, match="another problem"):
        qgt.load_certificate(tmp_path / "proof", other, counts)
    changed = y.clone()
    changed[3, 2] += 1
    for counts in (changed, y[:-1], y.roll(1, 0)):
        with pytest.raises(ValueError, match="other counts"):
            qgt.load_certificate(tmp_path / "proof", problem, counts)


def test_answers_that_were_changed_in_the_file_are_refused(tmp_path: Path) -> None:
    problem, y, result = solved()
    qgt.save_certificate(tmp_path / "proof", problem, y, result)
    tensors = load_file(tmp_path / "proof")
    tensors["x"][0, 0] ^= 1
    save_file(tensors, tmp_path / "proof", header(tmp_path / "proof"))
    with pytest.raises(ValueError, match="answers were changed"):
        qgt.load_certificate(tmp_path / "proof", problem, y)


@pytest.mark.parametrize("odds", [0, -1, 0.99, "100", None, True, 1e400])
def test_odds_that_would_ask_nothing_are_refused(tmp_path: Path, odds: object) -> None:
    problem, y, result = solved()
    path = tmp_path / "proof"
    qgt.save_certificate(path, problem, y, result)
    told = json.loads(header(path)["certificate"])
    save_file(load_file(path), path, {"certificate": json.dumps({**told, "odds": odds})})
    with pytest.raises(ValueError, match="odds"):
        qgt.check_certificate(problem, y, qgt.load_certificate(path, problem, y))


def header(path: Path) -> dict[str, str]:
    with safe_open(path, "pt") as file:
        return dict(file.metadata())


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    problem, y, _ = solved()
    (tmp_path / "text").write_text("not tensors")
    with pytest.raises(ValueError, match="cannot be read as a certificate"):
        qgt.load_certificate(tmp_path / "text", problem, y)
    with pytest.raises(ValueError, match="cannot be read as a certificate"):
        qgt.load_certificate(tmp_path / "absent", problem, y)
    save_file({"weights": torch.zeros(3)}, tmp_path / "network", {"problem": problem.fingerprint})
    with pytest.raises(ValueError, match="holds weights"):
        qgt.load_certificate(tmp_path / "network", problem, y)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x", lambda t: t[:-1]),
        ("x", lambda t: t.float()),
        ("status", lambda t: t[:, None]),
        ("status", lambda t: t + 200),
        ("status", lambda t: t[0]),
        ("complete", lambda t: t[1:]),
        ("proof.pi", lambda t: t[1:]),
        ("proof.pi", lambda t: t[:-9]),
        ("proof.fixed", lambda t: t[:0]),
        ("proof.least", lambda t: t.double()),
        ("proof.step", lambda t: t ^ 255),
        ("proof.ends", lambda t: t.flip(0)),
        ("proof.ends", lambda t: t * 2**40),
        ("answers.ends", lambda t: t - t[-1]),
        ("answers.x", lambda t: t[:0]),
    ],
)
def test_damaged_tensors_are_refused(tmp_path: Path, name: str, change: object) -> None:
    problem, y, result = solved()
    path = tmp_path / "proof"
    qgt.save_certificate(path, problem, y, result)
    tensors, told = load_file(path), header(path)
    tensors[name] = change(tensors[name]).contiguous()  # type: ignore[operator]
    save_file(tensors, path, told)
    with pytest.raises(ValueError, match="proof"):
        qgt.load_certificate(path, problem, y)


def test_a_small_file_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    problem, y, result = solved()
    path = tmp_path / "proof"
    qgt.save_certificate(path, problem, y, result)
    tensors, told = load_file(path), header(path)
    bomb = lzma.compress(bytes(2**24))
    tensors["proof.fixed"] = torch.frombuffer(bytearray(bomb), dtype=torch.uint8)
    save_file(tensors, path, told)
    with pytest.raises(ValueError, match="size it should"):
        qgt.load_certificate(path, problem, y)
    tensors["proof.ends"][-1] = 2**40
    save_file(tensors, path, told)
    with pytest.raises(ValueError, match="more than a proof has"):
        qgt.load_certificate(path, problem, y)


def test_packing_makes_proofs_a_tenth_and_they_still_prove(tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=20, items=60, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.08), qgt.SparseInteger(0.1, 1))
    y = problem.simulate(60, generator=g).y
    result = qgt.Certified().bind(problem)(y)
    qgt.save_certificate(tmp_path / "proof", problem, y, result)
    assert bool(qgt.check_certificate(problem, y, qgt.load_certificate(tmp_path / "proof", problem, y)).all())
    proof = result.proof
    plain = sum(part.nbytes for part in (proof.fixed, proof.least, proof.most, proof.pi))
    assert (tmp_path / "proof").stat().st_size < plain / 7  # of small proofs; a tenth where they are long


def test_no_instances_have_an_empty_certificate(tmp_path: Path) -> None:
    problem, y, _ = solved()
    result = qgt.Certified().bind(problem)(y[:0])
    qgt.save_certificate(tmp_path / "proof", problem, y[:0], result)
    assert len(qgt.check_certificate(problem, y[:0], qgt.load_certificate(tmp_path / "proof", problem, y[:0]))) == 0


# --- forged proofs --------------------------------------------------------------------------------------------------


def claim(problem: qgt.Problem, x: list[int], status: int, pi: float, fixed: list[list[int]]) -> qgt.Decoded:
    """A certificate written by hand: boxes with equal multipliers, and no alternatives."""
    leaves = len(fixed)
    proof = qgt.Proof(
        1.0,
        qgt.Spans(torch.tensor([leaves])),
        torch.tensor(fixed, dtype=torch.int8).view(leaves, problem.items),
        torch.zeros(leaves, dtype=torch.int64),
        torch.full((leaves,), problem.items),
        torch.full((leaves, problem.pools), pi),
        torch.zeros(leaves, 0),
    )
    none = torch.zeros(0, dtype=torch.float64)
    answers = qgt.Answers(qgt.Spans(torch.tensor([0])), torch.zeros(0, problem.items, dtype=torch.uint8), none, none)
    calls, said = torch.tensor([x], dtype=torch.uint8), torch.tensor([status], dtype=torch.uint8)
    return qgt.Decoded(calls, said, None, qgt.Evidence(alternatives=answers), proof)


def two_pools() -> tuple[qgt.Problem, torch.Tensor]:
    problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.2), qgt.SparseInteger(0.1, 1))
    return problem, torch.tensor([[1.0, 1.0]], dtype=torch.float64)


EVERY = [[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)]


def test_a_proof_by_hand_is_accepted_for_the_best_answer_only() -> None:
    problem, y = two_pools()
    for x in EVERY:
        proved = qgt.check_certificate(problem, y, claim(problem, x, qgt.Status.PROVED, 0.0, EVERY))
        assert bool(proved) == (x == [0, 1, 0])


def test_no_multipliers_prove_a_wrong_answer_however_they_round() -> None:
    problem, y = two_pools()
    g = torch.Generator().manual_seed(0)
    for scale in (1.0, 1e8, 1e20, 1e30):
        for x in (x for x in EVERY if x != [0, 1, 0]):
            result = claim(problem, x, qgt.Status.PROVED, 0.0, [[-1, -1, -1]])
            for _ in range(20):
                result.proof.pi[:] = scale * torch.randn(1, 2, generator=g)
                assert not bool(qgt.check_certificate(problem, y, result))


def test_what_sums_may_round_off_is_not_counted_as_proved() -> None:
    problem = qgt.Problem(qgt.Design.from_rows(["1" * 50] * 2), qgt.Bernoulli(0.2), qgt.RoundedGaussian(1.0))
    y = torch.tensor([[7.0, 7.0]], dtype=torch.float64)
    result = claim(problem, [1] * 50, qgt.Status.PROVED, 0.0, [[-1] * 50])
    # Opposite multipliers cancel, but for what is lost of them: a bound of up to 1e6 too high, if that were ignored.
    for pi in (1e20, 3e20, 7e21):
        result.proof.pi[:] = torch.tensor([[pi, -pi]])
        assert not bool(qgt.check_certificate(problem, y, result))


def test_an_answer_must_be_zeros_and_ones() -> None:
    problem, y = two_pools()
    assert not bool(qgt.check_certificate(problem, y, claim(problem, [0, 2, 0], qgt.Status.PROVED, 0.0, EVERY)))


def test_no_answer_is_exempt_where_none_is_said_to_be_possible() -> None:
    problem = qgt.Problem(qgt.Design.from_rows(["100", "010", "001"]), qgt.Bernoulli(0.2))
    y = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)  # one x is possible
    assert bool(qgt.check_certificate(problem, y, claim(problem, [1, 0, 1], qgt.Status.PROVED, 0.0, EVERY)))
    assert not bool(qgt.check_certificate(problem, y, claim(problem, [1, 0, 1], qgt.Status.INFEASIBLE, 0.0, EVERY)))
