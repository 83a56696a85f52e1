"""Files that earlier versions stored are read by this one, and mean the same: `make.py` made them."""

import json
import shutil
from pathlib import Path

import httpx
import pytest
import torch

import qgt
from qgt.decoders.certificate_file import load_certificate
from qgt.lab.answers.decoding import ByLongerLists, decode_history
from qgt.lab.rounds import Round, after_rounds, read_round
from qgt.lab.sheets.counts import read_counts
from qgt.rounds.history import History
from qgt.rounds.stopping import Settle
from qgt.study.reading import study_results
from qgt.web.app import in_background
from qgt.web.settings import Settings

VERSIONS = sorted(path for path in Path(__file__).parent.iterdir() if (path / "plan").is_dir())
NAMES = {"S3", "S8"}  # the positives of the clear plate


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def stored(request):
    return request.param


def test_there_are_files_of_a_version():
    assert VERSIONS


def test_a_plan_its_counts_and_their_calls(stored):
    decoder = qgt.SheetDecoder.of_plan(stored / "plan", calibrate=0.5)
    sheet = decoder.decode(stored / "counts.csv")
    assert [one.name for one in sheet.accounts] == ["clear", "doubt"]
    assert set(sheet.accounts[0].positives) == NAMES
    header, clear, _ = (stored / "calls.csv").read_text().splitlines()
    called = {name for name, cell in zip(header.split(","), clear.split(","), strict=True) if cell == "1"}
    assert called == NAMES


def test_proofs_hold(stored):
    plan = qgt.read_plan(stored / "plan")
    y = read_counts(stored / "counts.csv", plan.problem.design, noise=plan.problem.noise).y
    result = load_certificate(stored / "proofs.safetensors", plan.problem, y)
    assert bool(qgt.check_certificate(plan.problem, y, result).all())


def test_a_round_can_be_filled_in(stored):
    plan = qgt.read_plan(stored / "plan")
    record = Round.from_plain(json.loads((stored / "round2" / "round.json").read_text()))
    (instance,) = record.instances
    assert instance.name == "doubt"
    sheet = read_counts(stored / "counts.csv", plan.problem.design, noise=plan.problem.noise)
    first = History.start(plan.problem, sheet.y[1])
    rows = [[name in members for name in plan.problem.design.item_names] for _, members in instance.pools]
    counts = torch.tensor([len(NAMES & set(members)) for _, members in instance.pools], dtype=torch.float64)
    later = first.after(torch.tensor(rows, dtype=torch.uint8), counts)
    way = ByLongerLists(Settle(confidence=0.99), torch.Generator().manual_seed(0))
    found = decode_history(plan.problem, [later], ["doubt"], way, rounds=2)
    assert set(found.accounts[0].answer) == NAMES


def test_a_rounds_own_table_is_read_by_its_names(stored, tmp_path):
    """Rounds of 0.1 have names without the code of a proposal."""
    plan = qgt.read_plan(stored / "plan")
    shutil.copytree(stored / "round2", tmp_path / "round2")
    path = tmp_path / "round2" / "counts.csv"
    rows = path.read_text().splitlines()
    path.write_text("\n".join([rows[0], *(f"{row}{place}" for place, row in enumerate(rows[1:]))]) + "\n")
    found = read_round(tmp_path / "round2", plan.problem)
    assert list(found.counts) == found.record.pool_keys == [tuple(row.split(",")[:2]) for row in rows[1:]]
    assert list(found.counts.values()) == [0.0, 1.0]
    sheet = read_counts(stored / "counts.csv", plan.problem.design, noise=plan.problem.noise)
    first = [History.start(plan.problem, row) for row in sheet.y]
    _, (record,) = after_rounds(first, list(sheet.names), [found])
    assert record.code == Round.from_plain(record.plain).code and len(record.code) == 4


def test_a_round_that_the_page_stored_takes_counts(stored, tmp_path):
    """As it was proposed on the page; pools of 0.1 have names without a code, and no reasons."""
    shutil.copy(stored / "runs.db", tmp_path / "runs.db")
    record = json.loads((stored / "round2" / "round.json").read_text())
    with in_background(Settings(tmp_path, port=0, calibrate=0.3)) as state:
        (run,) = state.store.runs()
        first = state.store.submission(run.id, 1)
        numbers = state.bench.prepared(run.id).problem.design
        plates = [{**record["instances"][0], "name": first.counts["names"][0], "counts": first.counts["values"][0]}]
        old = {**record, "design": numbers.fingerprint, "instances": plates}
        state.store.add_round(
            run.id, 1, {"record": old, "words": {plates[0]["name"]: "2 pools."}, "again": {}, "stuck": [], "tests": 2}
        )
        with httpx.Client(base_url=state.settings.address, timeout=60) as client:
            where = f"/api/v1/runs/{run.id}/versions/1/follow-up"
            pools = [one["pool"] for one in client.get(where).json()["pools"]]
            assert pools == [name for name, _ in plates[0]["pools"]]
            assert client.get(f"/runs/{run.id}/versions/1/follow-up").status_code == 200
            assert client.post(f"{where}/counts", json={"counts": [1, 1]}).json()["version"] == 2
            assert client.get(f"/api/v1/runs/{run.id}/versions/2?wait=60").json()["rounds"] == 2


def test_the_pages_store(stored, tmp_path):
    shutil.copy(stored / "runs.db", tmp_path / "runs.db")
    settings = Settings(tmp_path, port=0, calibrate=0.3)
    with in_background(settings) as state, httpx.Client(base_url=state.settings.address, timeout=60) as client:
        (run,) = client.get("/api/v1/runs").json()
        assert (run["name"], run["versions"], run["decoded"]) == ("Stored", 1, 1)
        (plate,) = client.get(f"/api/v1/runs/{run['id']}/versions/1").json()["results"]
        assert {sample for sample, call in plate["calls"].items() if call == "positive"} == NAMES
        assert client.get(f"/runs/{run['id']}/versions/1").status_code == 200
        values = [[0] * len(run["pools"])]
        assert client.post(f"/api/v1/runs/{run['id']}/counts", json={"values": values}).json()["version"] == 2


def test_a_network_answers_as_it_did(stored):
    kept = json.loads((stored / "network.json").read_text())
    net = qgt.load(stored / "network")
    scores = net.bind(net.problem)(torch.tensor(kept["y"], dtype=torch.float64)).scores
    torch.testing.assert_close(scores.double(), torch.tensor(kept["scores"], dtype=torch.float64), atol=1e-6, rtol=1e-5)


def test_a_study_is_read(stored, tmp_path):
    shutil.copy(stored / "study.db", tmp_path / "study.db")
    study = qgt.Study.load(stored / "study.json")
    found = {one.decoder: one for one in study_results(study, tmp_path / "study.db")}
    assert set(found) == {"AMP", "greedy"}
    assert all(one.finished for one in found.values())
