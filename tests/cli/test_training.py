"""The verbs on networks: train, decode --model, verify."""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError

import qgt
from qgt.cli import main
from qgt.decoders.neural import model_file
from qgt.files import store
from qgt.learning import training
from qgt.learning.run import TrainingRun

PROBLEM = """
design = { kind = "bernoulli", pools = 14, items = 18, seed = 7 }
prior = { kind = "bernoulli", rate = 0.12 }
noise = { kind = "sparse_integer", rate = 0.03, bound = 1 }
"""
UNCOMPARED = ["--limit", "0"]  # how far a network is from the limit has a test of its own
SMALL = ["--hidden", "64", "--instances", "6000", "--batch", "250", "--epochs", "12", *UNCOMPARED]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a problem, its design, and a trained run."""
    path = tmp_path_factory.mktemp("network")
    (path / "problem.toml").write_text(PROBLEM)
    qgt.Problem.load(path / "problem.toml").design.to_csv(path / "design.csv")
    assert main(["train", str(path / "problem.toml"), "-o", str(path / "run"), *SMALL]) == 0
    return path


def last_json(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_train_prints_every_figure(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", str(folder / "problem.toml"), "-o", str(tmp_path / "run"), *SMALL, "--json"]
    assert main(arguments) == 0
    facts = last_json(capsys)
    for key in ("success_rate", "f1", "precision", "recall", "mse", "threshold", "epochs", "seconds"):
        assert isinstance(facts[key], int | float), key
    assert facts["epochs"] == 12
    assert facts["items_covered"] == 18
    assert 0 < facts["unseen_supports"] < 1
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == ["model.safetensors"]
    # The same seed gives the same network.
    a, b = qgt.load(folder / "run"), qgt.load(tmp_path / "run")
    assert all(torch.equal(v, b.network.state_dict()[k]) for k, v in a.network.state_dict().items())


@pytest.mark.parametrize(
    ("options", "architecture"),
    [
        (["--level", "2"], qgt.MLP.level(2)),
        (["--hidden", "8,4"], qgt.MLP((8, 4))),
        (["--architecture", "residual", "--width", "8", "--blocks", "1", "--steps", "20"], qgt.ResidualMLP(8, 1)),
        (["--architecture", "refining", "--width", "8", "--rounds", "2", "--steps", "20"], qgt.Refining(8, 2, 2)),
    ],
)
def test_architectures(folder: Path, tmp_path: Path, options: list[str], architecture: qgt.Architecture) -> None:
    sizes = ["--batch", "50"] if "--steps" in options else ["--instances", "500", "--epochs", "1"]
    assert (
        main(["train", str(folder / "problem.toml"), "-o", str(tmp_path / "run"), *options, *sizes, *UNCOMPARED]) == 0
    )
    assert qgt.load(tmp_path / "run").architecture == architecture


def test_decode_with_a_model_equals_the_library(folder: Path, tmp_path: Path) -> None:
    counts, truth, calls = (str(tmp_path / name) for name in ("counts.csv", "truth.csv", "calls.csv"))
    assert main(["simulate", str(folder / "problem.toml"), "--instances", "50", "-o", counts, "--truth", truth]) == 0
    assert main(["decode", counts, "--model", str(folder / "run"), "--answers", calls]) in (0, 1)
    net = qgt.load(folder / "run")
    rows = [line.split(",")[1:] for line in Path(counts).read_text().splitlines()[1:]]
    expected = net.bind(net.problem)(torch.tensor([[float(v) for v in row] for row in rows])).x
    written = [line.split(",")[1:] for line in Path(calls).read_text().splitlines()[1:]]
    assert torch.equal(torch.tensor([[int(v) for v in row] for row in written], dtype=torch.uint8), expected)


def test_verify_agrees_with_the_true_design(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report"
    arguments = ["verify", str(folder / "run"), "--claimed", str(folder / "design.csv"), "-o", str(report)]
    assert main([*arguments, "--estimator", "regression"]) == 0
    assert "agrees with the claimed design" in capsys.readouterr().out
    assert json.loads((report / "report.json").read_text())["error_percent"] == 0.0
    assert (report / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_verify_finds_a_wrong_sheet(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (folder / "design.csv").read_text().splitlines()
    cells = lines[3].split(",")
    cells[5] = str(1 - int(cells[5]))
    (tmp_path / "sheet.csv").write_text("\n".join([*lines[:3], ",".join(cells), *lines[4:]]) + "\n")
    arguments = [
        "verify",
        str(folder / "run"),
        "--claimed",
        str(tmp_path / "sheet.csv"),
        "-o",
        str(tmp_path / "report"),
    ]
    assert main([*arguments, "--estimator", "regression", "--json"]) == 1
    facts = last_json(capsys)
    assert [(m["pool"], m["item"]) for m in facts["mismatches"]] == [("P3", "I5")]


def test_training_over_something_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = str(folder / "problem.toml")
    assert main(["train", problem, "-o", str(folder / "run"), *SMALL]) == 2
    assert "already holds a model" in capsys.readouterr().err
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "checkpoint.safetensors").write_bytes(b"something")
    assert main(["train", problem, "-o", str(tmp_path / "half"), *SMALL]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["train", problem, "-o", str(tmp_path / "half"), *SMALL, "--resume"]) == 2
    assert "is not a checkpoint" in capsys.readouterr().err


def test_interrupted_training_keeps_its_best_and_resumes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    original = TrainingRun.epoch

    def interrupted(run: TrainingRun) -> qgt.Epoch:
        if run.number == 5:
            raise KeyboardInterrupt
        return original(run)

    arguments = ["train", str(folder / "problem.toml"), "-o", str(tmp_path / "run"), *SMALL]
    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "epoch", interrupted)
        assert main(arguments) == 130
    assert "--resume continues" in capsys.readouterr().out
    early = qgt.load(tmp_path / "run")
    assert early.training is not None
    assert early.training.interrupted
    assert early.training.epochs == 5
    assert main([*arguments, "--resume"]) == 0
    whole, resumed = qgt.load(folder / "run"), qgt.load(tmp_path / "run")
    assert all(torch.equal(v, resumed.network.state_dict()[k]) for k, v in whole.network.state_dict().items())
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def train(folder: Path, output: Path, *options: str) -> int:
    return main(["train", str(folder / "problem.toml"), "-o", str(output), *UNCOMPARED, *(options or SMALL)])


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a training begins that should have been refused."""

    def began(*arguments: object, **named: object) -> None:
        pytest.fail("the training began")

    monkeypatch.setattr(qgt, "train", began)


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr, but for the one that says how long a training will take."""
    lines = capsys.readouterr().err.strip().splitlines()
    lines = [line for line in lines if not line.startswith("qgt: training will take")]
    assert len(lines) == 1, lines
    return lines[0]


def test_a_folder_that_cannot_be_written_is_refused_before_training(
    folder: Path,
    tmp_path: Path,
    no_training: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    assert train(folder, tmp_path / "file" / "below") == 2
    assert "cannot be made a folder (Not a directory)" in refused(capsys)

    with monkeypatch.context() as patch:  # root, who may run the tests, may write anywhere
        patch.setattr(store.os, "access", lambda path, mode: mode != os.W_OK)
        assert train(folder, tmp_path / "run") == 2
    assert "cannot be written to (Permission denied)" in refused(capsys)
    with monkeypatch.context() as patch:
        patch.setattr(store.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
        assert train(folder, tmp_path / "run") == 2
    assert "cannot be written there (No space left on device)" in refused(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_disk_that_fills_up_is_told_in_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(model_file, "save_file", full)
    assert train(folder, tmp_path / "run") == 2
    assert "checkpoint.safetensors: cannot be written" in refused(capsys)
    assert not list(tmp_path.iterdir())


def test_a_second_training_into_one_folder_is_refused(
    folder: Path, tmp_path: Path, no_training: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    with store.alone_in(tmp_path / "run"):
        assert train(folder, tmp_path / "run") == 2
    assert f"{tmp_path / 'run'}: another process is at work in this folder" in refused(capsys)


def test_a_diverged_training_leaves_nothing_that_stops_the_retry(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--hidden", "8", "--instances", "500", "--epochs", "2", "--learning-rate"]
    assert train(folder, tmp_path / "run", *small, "1e30") == 2
    assert "give a smaller one" in refused(capsys)
    assert not list(tmp_path.iterdir())
    assert train(folder, tmp_path / "run", *small, "1e-3") == 0


def test_an_interrupt_before_the_first_epoch_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingRun, "epoch", interrupted)
    assert train(folder, tmp_path / "run") == 130
    monkeypatch.setattr(qgt, "verify", interrupted)
    assert main(["verify", str(folder / "run"), "-o", str(tmp_path / "deep" / "report")]) == 130
    assert not list(tmp_path.iterdir())


def test_fresh_data_is_told_in_steps(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is validated a hundred times, which are no epochs of any data set."""
    residual = ["--architecture", "residual", "--width", "8", "--blocks", "1", "--steps", "200", "--batch", "20"]
    assert train(folder, tmp_path / "run", *residual, "--json") == 0
    facts = last_json(capsys)
    assert facts["steps"] == 200
    assert "epochs" not in facts
    assert qgt.load(tmp_path / "run").architecture == qgt.ResidualMLP(8, 1)


def test_it_says_how_long_it_takes_and_how_far_it_is_from_the_limit(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = ["--hidden", "8", "--instances", "200", "--epochs", "1"]
    assert train(folder, tmp_path / "run", *tiny, "--limit", "0.2", "--json") == 0
    said = capsys.readouterr()
    assert re.search(r"^qgt: training will take at most about \d+ seconds?; Ctrl-C keeps the best", said.err, re.M)
    facts = json.loads(said.out)
    assert facts["limit_instances"] >= 20
    assert facts["limit_proved"] <= facts["limit_instances"]
    assert facts["below_the_limit"] == pytest.approx(facts["limit_success_rate"] - facts["own_success_rate_there"])
    assert facts["limit_success_rate"] > facts["own_success_rate_there"] - 0.1
    assert train(folder, tmp_path / "none", *tiny, "--json") == 0
    assert "limit_instances" not in last_json(capsys)


def test_missing_counts_and_rounds_from_training_to_decoding(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refining = ["--architecture", "refining", "--width", "16", "--rounds", "2", "--steps", "10", "--batch", "50"]
    assert train(folder, tmp_path / "run", *refining, "--missing", "0.1") == 0
    assert qgt.load(tmp_path / "run").network.missing
    counts = tmp_path / "counts.csv"
    assert main(["simulate", str(folder / "problem.toml"), "--instances", "5", "-o", str(counts)]) == 0
    lines = counts.read_text().splitlines()
    counts.write_text("\n".join([*lines[:-1], lines[-1].rpartition(",")[0] + ","]) + "\n")  # the last is missing
    decode = ["decode", str(counts), "--calibrate", "0", "--model"]
    assert main([*decode, str(tmp_path / "run"), "--set", "rounds=5", "-o", str(tmp_path / "calls.csv")]) == 0
    assert len((tmp_path / "calls.csv").read_text().splitlines()) == 6
    capsys.readouterr()
    for options, said in (
        ([str(folder / "run")], "trained without missing counts"),
        ([str(folder / "run"), "--set", "rounds=5"], "only Refining"),
        ([str(tmp_path / "run"), "--set", "rounds=many"], "rounds='many'"),
        ([str(tmp_path / "run"), "--set", "odds=3"], "odds=3 has no meaning for a network"),
    ):
        assert main([*decode, *options, "-o", str(tmp_path / "no.csv")]) == 2
        assert said in refused(capsys)


def test_a_prior_without_a_formula_from_training_to_a_study(
    tmp_path: Path, no_plugins: object, capsys: pytest.CaptureFixture[str]
) -> None:
    outbreak = str(Path(__file__).parents[2] / "examples" / "outbreak.py")
    prior = 'prior = { kind = "outbreak:Outbreak", contacts = 2, rounds = 1, transmission = 0.3 }'
    design = 'design = { kind = "bernoulli", pools = 10, items = 20'
    (tmp_path / "problem.toml").write_text(f"{design}, seed = 1 }}\n{prior}\n")
    sizes = "width = 16\nrounds = 2\ntrain = { steps = 10, batch = 50, validation = 100 }"
    network = f'[decoders.network]\nkind = "refining"\n{sizes}'
    (tmp_path / "study.toml").write_text(f"instances = 40\nbatch = 20\n[problem]\n{design} }}\n{prior}\n{network}\n")
    plugin = ["--plugin", outbreak]
    refining = ["--architecture", "refining", "--width", "16", "--rounds", "2", "--steps", "10", "--batch", "50"]
    assert train(tmp_path, tmp_path / "run", *refining, *plugin, "--json") == 0
    facts = last_json(capsys)
    assert facts["steps"] == 10
    assert "limit_instances" not in facts  # nobody knows its limit
    counts, calls = str(tmp_path / "counts.csv"), str(tmp_path / "calls.csv")
    assert main(["simulate", str(tmp_path / "problem.toml"), "--instances", "6", "-o", counts, *plugin]) == 0
    assert main(["decode", counts, "--model", str(tmp_path / "run"), "-o", calls, "--calibrate", "0.5", *plugin]) == 0
    assert len(Path(calls).read_text().splitlines()) == 7
    capsys.readouterr()
    assert main(["bench", str(tmp_path / "study.toml"), "--workers", "1", "--json", *plugin]) == 0
    assert [one["instances"] for one in last_json(capsys)["results"]] == [40]


def test_a_network_that_only_guesses_gets_no_verdict(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(folder, tmp_path / "run", "--hidden", "8", "--instances", "200", "--epochs", "1") == 0
    capsys.readouterr()
    for estimator in ("least_squares", "mean_jacobian", "regression"):
        report = str(tmp_path / estimator)
        assert main(["verify", str(tmp_path / "run"), "-o", report, "--estimator", estimator]) == 1
        said = capsys.readouterr().out
        assert said.startswith("No verdict")
        assert "sureness" not in said  # nobody is accused


def test_a_time_limit_is_for_the_exact_decoder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, counts, calls = str(folder / "problem.toml"), str(tmp_path / "counts.csv"), str(tmp_path / "calls.csv")
    assert main(["simulate", problem, "--instances", "4", "-o", counts]) == 0
    arguments = ["decode", counts, "--problem", problem, "-o", calls, "--time-limit", "20", "--json", "--decoder"]
    capsys.readouterr()
    assert main([*arguments, "exact"]) == 0
    assert last_json(capsys)["status"]["PROVED"] == 4
    assert main([*arguments, "amp"]) == 2
    assert "time_limit=20.0 has no meaning for amp" in capsys.readouterr().err


def test_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["limits", "--items", "100", "--rate", "0.06", "--noise-rate", "0.1", "--json"]) == 0
    assert last_json(capsys)["information"]["pools"] == pytest.approx(15.6, abs=0.05)
    assert main(["limits", "--items", "100", "--rate", "0.06"]) == 0
    assert "counting" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["train", "PROBLEM", "-o", "OUT", "--level", "9"], "level=9"),
        (["train", "PROBLEM", "-o", "OUT", "--level", "2", "--hidden", "5"], "level and hidden"),
        (["train", "PROBLEM", "-o", "OUT", "--hidden", "5,x"], "hidden='5,x'"),
        (["train", "PROBLEM", "-o", "OUT", "--architecture", "transformer"], "architecture='transformer'"),
        (["train", "PROBLEM", "-o", "OUT", "--architecture", "residual", "--level", "2"], "level=2 has no meaning"),
        (["train", "PROBLEM", "-o", "OUT", "--architecture", "residual", "--hidden", "2"], "hidden=2 has no meaning"),
        (["train", "PROBLEM", "-o", "OUT", "--width", "64"], "width=64 has no meaning for the architecture mlp"),
        (["train", "PROBLEM", "-o", "OUT", "--blocks", "2"], "blocks=2 has no meaning for the architecture mlp"),
        (["train", "PROBLEM", "-o", "OUT", "--rounds", "2"], "rounds=2 has no meaning for the architecture mlp"),
        (["train", "PROBLEM", "-o", "OUT", "--architecture", "residual", "--rounds", "2"], "rounds=2 has no meaning"),
        (["train", "PROBLEM", "-o", "OUT", "--architecture", "refining", "--level", "2"], "level=2 has no meaning"),
        (["train", "PROBLEM", "-o", "OUT", "--matrix-rate", "0.1"], "matrix_rate=0.1 has no meaning"),
        (["train", "PROBLEM", "-o", "OUT", "--missing", "1.5"], "missing='1.5'"),
        (["train", "PROBLEM", "-o", "OUT", "--instances", "1"], "instances=1"),
        (["train", "PROBLEM", "-o", "OUT", "--steps", "10", "--epochs", "5"], "epochs=5 has no meaning"),
        (["train", "PROBLEM", "-o", "OUT", "--instances", "-1"], "instances=-1"),
        (["train", "PROBLEM", "-o", "OUT", "--learning-rate", "nan"], "learning_rate=nan"),
        (["train", "PROBLEM", "-o", "OUT", "--device", "tpu"], "device='tpu'"),
        (["train", "absent.toml", "-o", "OUT"], "absent.toml"),
        (["train", "PROBLEM", "-o", "PROBLEM"], "is not a folder"),
        (["limits", "--items", "100", "--rate", "7"], "rate='7'"),
        (["limits", "--items", "100", "--rate", "0.1", "--noise-bound", "-1"], "bound=-1"),
        (["decode", "absent.csv", "-o", "OUT"], "--model"),
        (["decode", "absent.csv", "-o", "OUT", "--model", "RUN", "--decoder", "prevalence"], "both given"),
        (["decode", "absent.csv", "-o", "OUT", "--model", "absent"], "absent"),
        (["verify", "absent", "-o", "OUT"], "absent"),
        (["verify", "RUN", "-o", "OUT", "--estimator", "magic"], "estimator='magic'"),
        (["verify", "RUN", "-o", "OUT", "--claimed", "absent.csv"], "absent.csv"),
    ],
)
def test_bad_arguments_say_what_and_leave_nothing(
    folder: Path, tmp_path: Path, arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"PROBLEM": folder / "problem.toml", "OUT": tmp_path / "out", "RUN": folder / "run"}
    assert main([str(places.get(argument, argument)) for argument in arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert named in lines[0]
    assert not list(tmp_path.iterdir())


def test_fine_tuning_the_network_for_any_design(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem, run = tmp_path / "problem.toml", tmp_path / "tuned"
    problem.write_text(PROBLEM)
    assert main(["train", str(problem), "-o", str(run), "--from", "pretrained", "--steps", "2", "--batch", "8"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--decoder pretrained --set weights=" in said
    assert qgt.pretrained(run).made["fine_tuned"]["steps"] == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--from", "scratch"], "from='scratch' is not valid: give pretrained."),
        (["--from", "pretrained", "--level", "5"], "level=5 has no meaning with --from: use steps, batch"),
        (["--from", "pretrained", "--resume"], "resume=True has no meaning with --from"),
    ],
)
def test_what_fine_tuning_does_not_take(
    options: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "problem.toml").write_text(PROBLEM)
    assert main(["train", str(tmp_path / "problem.toml"), "-o", str(tmp_path / "run"), *options]) == 2
    assert reason in capsys.readouterr().err
