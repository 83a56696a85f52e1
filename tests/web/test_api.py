"""The JSON API: what a program sends and is answered, from a plan to the calls of a follow-up round."""

import io
import json
import re
import threading
import zipfile
from pathlib import Path

import httpx
import pytest
from visits import held, visiting, written_plan

from qgt.model.noise import PositiveNegative, SparseInteger
from qgt.web.api import PREFIX
from qgt.web.settings import Settings


@pytest.fixture
def get(visitor):
    return lambda path, **options: visitor.client.get(f"{PREFIX}{path}", **options)


@pytest.fixture
def post(visitor):
    return lambda path, **options: visitor.client.post(f"{PREFIX}{path}", **options)


def exact(problem, positives=(2, 7)):
    """The counts of some positives, as numbers."""
    return problem.design.matrix[:, list(positives)].sum(1).tolist()


def table(problem, positives=(2, 7), name="Plate 1"):
    """The same as a CSV sheet."""
    pools = ",".join(problem.design.pool_names)
    return f"plate,{pools}\n{name},{','.join(map(str, exact(problem, positives)))}\n".encode()


def finished(get, job):
    """A job, once it is over."""
    for _ in range(600):
        found = get(f"/jobs/{job['id']}").json()
        if found["state"] in ("done", "failed", "cancelled"):
            return found
        threading.Event().wait(0.05)
    raise AssertionError("the job did not end")


def test_from_a_question_to_calls(get, post):
    asked = post("/plans", json={"samples": 12, "positives": "0-1", "certainty": 0.8, "name": "Tuesday"})
    assert asked.status_code == 202
    done = finished(get, asked.json())
    assert done["state"] == "done", done
    draft = get(done["result"].removeprefix(PREFIX)).json()
    assert draft["candidates"][draft["recommended"]]["pools"]
    made = post(f"/drafts/{draft['draft']}", json={})
    assert made.status_code == 201
    run = made.json()
    assert (run["name"], run["samples"], run["versions"]) == ("Tuesday", 12, 0)
    assert b"design" in get(f"/runs/{run['id']}/files/problem.toml").content
    kept = post(f"/runs/{run['id']}/counts", json={"values": [[0] * len(run["pools"])]})
    assert kept.status_code == 201
    assert kept.json()["version"] == 1
    calls = get(kept.json()["result"].removeprefix(PREFIX), params={"wait": 60})
    assert calls.status_code == 200
    (plate,) = calls.json()["results"]
    assert set(plate["calls"].values()) == {"negative"}
    assert run["id"] in [one["id"] for one in get("/runs").json()]


def test_the_calls_are_those_of_the_page(visitor, get, post):
    run, problem = visitor.run()
    sent = post(f"/runs/{run}/counts", content=table(problem), headers={"Content-Type": "text/csv"})
    assert sent.status_code == 201, sent.text
    found = get(f"/runs/{run}/versions/1", params={"wait": 60}).json()
    (plate,) = found["results"]
    assert plate["instance"] == "Plate 1"
    assert [sample for sample, call in plate["calls"].items() if call == "positive"] == ["S3", "S8"]
    files = {name: get(f"/runs/{run}/versions/1/files/{name}").content for name in found["files"]}
    assert json.loads(files["results.json"])["results"] == found["results"]
    page = visitor.get(f"/runs/{run}/versions/1")
    assert page.status_code == 200
    assert "S3" in page.text
    assert "api" in visitor.get(f"/runs/{run}").text  # the trail says how the counts came


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"values": []}, "at least 1"),
        ({"values": [[1, 2]]}, "send 8, one for each pool"),
        ({"values": [[None] * 8]}, "has no counts"),
        ({"values": [[1] * 8], "names": ["a", "b"]}, "2 names and 1 rows"),
        ({"values": [[1] * 8] * 2, "names": ["a", "a"]}, "a name twice"),
        ({"values": [[True] + [0] * 7]}, "values.0.0"),
        ({"values": [["many"] + [0] * 7]}, "many"),
        ({"value": [[0] * 8]}, "value"),
        ({"values": [[0] * 8], "names": ["a\n"]}, "do not print"),
    ],
)
def test_bad_numbers_are_refused_with_words_and_nothing_is_kept(visitor, get, post, sent, words):
    run, _ = visitor.run()
    answer = post(f"/runs/{run}/counts", json=sent)
    assert answer.status_code == 422
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert get(f"/runs/{run}").json()["versions"] == 0


@pytest.mark.parametrize("sent", [b"", b"{", b'{"values": [[NaN, 0, 0, 0, 0, 0, 0, 0]]}', b"[1]"])
def test_bad_json_is_refused_with_words(visitor, get, post, sent):
    run, _ = visitor.run()
    answer = post(f"/runs/{run}/counts", content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]
    assert get(f"/runs/{run}").json()["versions"] == 0


def test_words_and_missing_counts_are_read_as_in_a_sheet(visitor, get, post):
    run, _ = visitor.run(assay=PositiveNegative(0.99, 0.99))
    kept = post(f"/runs/{run}/counts", json={"values": [["neg", "negative", 0, None, 0, 0, 0, "nachgewiesen"]]})
    assert kept.status_code == 201, kept.text
    assert any("words" in note for note in kept.json()["notes"])
    stored = visitor.store.submission(run, 1).counts["values"]
    assert stored == [[0, 0, 0, None, 0, 0, 0, 1]]


def test_the_same_counts_again_are_the_same_version(visitor, post):
    run, problem = visitor.run()
    sent = {"values": [exact(problem)], "names": ["A"]}
    assert [post(f"/runs/{run}/counts", json=sent).json()["version"] for _ in range(2)] == [1, 1]
    other = {"values": [exact(problem, (1,))], "names": ["A"]}
    assert post(f"/runs/{run}/counts?based=0", json=other).status_code == 409
    assert post(f"/runs/{run}/counts?based=1", json=other).json()["version"] == 2


def test_a_full_queue_keeps_the_counts_and_asks_to_come_back(tmp_path):
    settings = Settings(tmp_path / "runs", port=0, calibrate=0.3, most_waiting=0)
    with visiting(settings) as one:
        run, problem = one.run()
        kept = one.client.post(f"{PREFIX}/runs/{run}/counts", json={"values": [exact(problem)]})
        assert kept.status_code == 201
        busy = one.client.get(kept.json()["result"])
        assert busy.status_code == 429
        assert int(busy.headers["retry-after"]) > 0
        assert one.store.submission(run, 1) is not None


def test_follow_up_by_json(visitor, get, post):
    run, problem = visitor.run(assay=SparseInteger(rate=0.1, bound=1))
    counts = exact(problem, (2, 7))
    counts[0] += 1
    post(f"/runs/{run}/counts", json={"values": [counts], "names": ["A"]})
    first = get(f"/runs/{run}/versions/1", params={"wait": 60}).json()
    assert first["results"][0]["verdict"] != "certain"
    assert get(f"/runs/{run}/versions/1/follow-up").status_code == 404
    job = post(f"/runs/{run}/versions/1/follow-up", json={"pools": 3})
    assert job.status_code == 202
    assert finished(get, job.json())["state"] == "done"
    proposed = get(f"/runs/{run}/versions/1/follow-up").json()["pools"]
    assert proposed and {one["plate"] for one in proposed} == {"A"}
    truth = {problem.design.item_names[item] for item in (2, 7)}
    told = [len(truth & set(one["samples"])) for one in proposed]
    short = post(f"/runs/{run}/versions/1/follow-up/counts", json={"counts": [*told, 0]})
    assert short.status_code == 422
    kept = post(f"/runs/{run}/versions/1/follow-up/counts", json={"counts": told})
    assert kept.json()["version"] == 2
    after = get(f"/runs/{run}/versions/2", params={"wait": 60}).json()
    assert after["rounds"] == 2
    assert after["results"][0]["answer"] == sorted(truth)
    again = post(f"/runs/{run}/versions/1/follow-up/counts", json={"counts": told})
    assert (again.status_code, again.json()["version"]) == (201, 2)  # the same once more is the same version
    corrected = post(f"/runs/{run}/versions/1/follow-up/counts", json={"counts": [*told[:-1], None]})
    assert (corrected.status_code, corrected.json()["version"]) == (201, 3)
    stored = visitor.store.submission(run, 3).counts["rounds"]
    assert len(stored) == 1 and stored[0]["counts"] == [*map(float, told[:-1]), None]
    post(f"/runs/{run}/counts", json={"values": [exact(problem, (2, 7))], "names": ["A"]})
    late = post(f"/runs/{run}/versions/1/follow-up/counts", json={"counts": told})
    assert late.status_code == 409 and "version 4 is newer than the one this round follows" in late.json()["error"]


def proposed(get, post, run, version=1, pools=3):
    """A proposal, once it is made."""
    assert (
        finished(get, post(f"/runs/{run}/versions/{version}/follow-up", json={"pools": pools}).json())["state"]
        == "done"
    )
    return get(f"/runs/{run}/versions/{version}/follow-up").json()


def test_counts_of_a_proposal_are_never_taken_for_those_of_another(visitor, get, post):
    run, problem = visitor.run(assay=SparseInteger(rate=0.1, bound=1))
    counts = exact(problem, (2, 7))
    counts[0] += 1
    post(f"/runs/{run}/counts", json={"values": [counts]})
    first, second = (proposed(get, post, run, pools=pools) for pools in (3, 2))
    assert first["code"] != second["code"]
    assert not {one["pool"] for one in first["pools"]} & {one["pool"] for one in second["pools"]}
    assert proposed(get, post, run, pools=2)["code"] == second["code"]  # the same pools once more
    where = f"/runs/{run}/versions/1/follow-up/counts"
    truth = {problem.design.item_names[item] for item in (2, 7)}
    told = {one["code"]: [len(truth & set(pool["samples"])) for pool in one["pools"]] for one in (first, second)}
    unclear = post(where, json={"counts": told[second["code"]]})
    assert unclear.status_code == 409
    assert f"2 proposals were made after version 1 ({second['code']}, {first['code']})" in unclear.json()["error"]
    strange = post(where, json={"counts": told[second["code"]], "code": "2222"})
    assert strange.status_code == 409 and "proposal 2222 was not made after version 1" in strange.json()["error"]
    assert visitor.store.run(run).versions == 1
    kept = post(where, json={"counts": told[first["code"]], "code": first["code"]})  # the pools that were tested
    assert kept.status_code == 201
    (entered,) = visitor.store.submission(run, kept.json()["version"]).counts["rounds"]
    assert [pool for one in entered["record"]["instances"] for pool, _ in one["pools"]] == [
        one["pool"] for one in first["pools"]
    ]
    other = post(where, json={"counts": told[second["code"]], "code": second["code"]})
    assert other.status_code == 409 and "version 2 is newer" in other.json()["error"]


def test_the_table_of_a_round_names_its_proposal(visitor, get, post):
    run, problem = visitor.run(assay=SparseInteger(rate=0.1, bound=1))
    counts = exact(problem, (2, 7))
    counts[0] += 1
    post(f"/runs/{run}/counts", json={"values": [counts]})
    first, second = (proposed(get, post, run, pools=pools) for pools in (3, 2))
    truth = {problem.design.item_names[item] for item in (2, 7)}

    def table_of(*proposals):
        pools = [pool for one in proposals for pool in one["pools"]]
        rows = [f"{one['plate']},{one['pool']},{len(truth & set(one['samples']))}" for one in pools]
        return "\n".join(["instance,pool,count", *rows]).encode()

    where = f"/runs/{run}/versions/1/follow-up/counts"
    assert "several proposals" in post(where, content=table_of(first, second)).json()["error"]
    late = post(where, content=table_of(first).replace(first["code"].encode(), b"2222"))
    assert late.status_code == 409 and "proposal 2222 was not made" in late.json()["error"]
    assert "target='N1' is not valid" in post(f"{where}?target=N1", content=table_of(first)).json()["error"]
    assert post(where, content=b"").status_code == 422
    kept = post(where, content=table_of(first))
    assert kept.status_code == 201
    (entered,) = visitor.store.submission(run, 2).counts["rounds"]
    assert entered["counts"] == [len(truth & set(one["samples"])) for one in first["pools"]]
    assert post(where, content=table_of(first)).json()["version"] == 2  # the same once more


def test_why_there_is_no_proposal(visitor, get, post):
    run, problem = visitor.run(assay=PositiveNegative())
    values = [[1] * problem.pools]
    post(f"/runs/{run}/counts", json={"values": values, "names": ["A"]})
    found = proposed(get, post, run, pools=1)
    for plate in found["no_proposal"]:
        assert found["words"][plate].endswith(".")
    assert set(found["words"]) == {one["plate"] for one in found["pools"]} | set(found["no_proposal"])


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("get", "/runs?mots=3", "mots='3' is not a parameter of this request: send most."),
        ("get", "/runs/RUN/versions/1?Wait=3", "Wait='3' is not a parameter of this request: send wait."),
        ("post", "/runs/RUN/counts?contol=RP", "contol='RP' is not a parameter of this request: send control."),
        ("post", "/runs/RUN/counts?xyz=1", "it takes note, target, control, based."),
        ("get", "/health?secret=x", "secret='x' is not a parameter of this request: leave it out."),
        ("post", "/runs/RUN/versions/1/follow-up/counts?targets=N1", "send target."),
        ("get", "/runs/RUN/files/problem.toml?wait=1", "leave it out."),
    ],
)
def test_unknown_parameters_are_refused_with_the_near_one(visitor, get, post, method, path, said):
    run, _ = visitor.run()
    answer = {"get": get, "post": post}[method](path.replace("RUN", run))
    assert answer.status_code == 422 and said in answer.json()["error"]
    assert visitor.store.run(run).versions == 0


def zipped(files, folder="", packing=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", packing) as archive:
        for name, content in files.items():
            archive.writestr(f"{folder}{name}", content)
    return stream.getvalue()


def spoiled(content):
    """A ZIP file whose compressed bytes were damaged on the way."""
    return content[:45] + bytes(255 - byte for byte in content[45:47]) + content[47:]


def with_a_file_twice(files):
    stream = io.BytesIO(zipped(files))
    with zipfile.ZipFile(stream, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("problem.toml", files["problem.toml"])
    return stream.getvalue()


@pytest.mark.parametrize("folder", ["", "plan/"])
def test_a_plan_made_elsewhere(post, folder):
    made = post("/runs?name=Elsewhere", content=zipped(written_plan(None, None)[1], folder))
    assert made.status_code == 201, made.text
    assert (made.json()["name"], made.json()["samples"]) == ("Elsewhere", 12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda files: b"not a zip", "not a ZIP file"),
        (lambda files: zipped({name: data for name, data in files.items() if name != "design.csv"}), "design.csv"),
        (lambda files: zipped({**files, "../up.html": b"x"}), "'../up.html'"),
        (
            lambda files: zipped({**files, "design.csv": files["design.csv"].replace(b"P1,S1 S3", b"P1,S2 S3", 1)}),
            "check code",
        ),
        (lambda files: zipped({**files, "big": bytes(60 * 2**20)}), "larger than a plan"),
        (lambda files: spoiled(zipped({"problem.toml": b"a" * 1000 + b"b" * 500})), "not a ZIP file"),
        (lambda files: zipped(files, packing=zipfile.ZIP_LZMA), "pack it with Deflate"),
        (with_a_file_twice, "holds a file twice"),
    ],
)
def test_bad_plans_are_refused(visitor, post, change, words):
    before = len(visitor.store.runs())
    answer = post("/runs", content=change(dict(written_plan(None, None)[1])))
    assert answer.status_code == 422
    assert words in answer.json()["error"]
    assert len(visitor.store.runs()) == before


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"samples": 1, "positives": "1"}, "from 2 to"),
        ({"samples": 12, "positives": "many"}, "many"),
        ({"samples": 12}, "positives"),
        ({"samples": 12, "positives": "1", "assay": "colour"}, "assay"),
        ({"samples": 12, "positives": "1", "assay": "ct", "errors": "2%"}, "measured"),
        ({"samples": 12, "positives": "1", "certainly": 0.9}, "certainly"),
    ],
)
def test_bad_questions_are_refused(post, sent, words):
    answer = post("/plans", json=sent)
    assert answer.status_code == 422
    assert words in answer.json()["error"]


@pytest.mark.parametrize("path", ["/runs/0", "/jobs/0", "/drafts/0", "/nothing", "/runs/0/versions/1"])
def test_unknown_addresses_are_json_too(get, path):
    answer = get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]


def test_a_cancelled_decode_can_be_begun_again(visitor, get, post):
    run, problem = visitor.run()
    with held(visitor.app_state.queue):
        post(f"/runs/{run}/counts", json={"values": [exact(problem)]})
        waiting = get(f"/runs/{run}/versions/1")
        assert waiting.status_code == 202
        assert post(f"/jobs/{waiting.json()['id']}/cancel").json()["state"] == "cancelled"
    assert get(f"/runs/{run}/versions/1").status_code == 422
    assert post(f"/runs/{run}/versions/1/decode").status_code == 202
    assert get(f"/runs/{run}/versions/1", params={"wait": 60}).status_code == 200


def test_the_description_names_every_route(visitor, get):
    described = get("/openapi.json").json()
    assert described["servers"] == [{"url": PREFIX}]
    assert {"/health", "/plans", "/runs/{id}/counts", "/runs/{id}/versions/{version}"} <= set(described["paths"])
    page = visitor.get("/api").text
    for path in described["paths"]:
        assert path in page


def test_the_description_has_the_token_and_every_refusal(get):
    described = get("/openapi.json").json()
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert described["security"] == [{}, {"token": []}]
    shapes = described["components"]["schemas"]
    assert list(shapes["Error"]["properties"]) == ["error"] and {"SentCounts", "RoundCounts"} <= set(shapes)
    text = json.dumps(described)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in shapes
    for path, methods in described["paths"].items():
        for method, facts in methods.items():
            wanted = {"401", "422", "429"} | ({"404"} if "{" in path else set())
            wanted |= {"409"} if path.endswith("/counts") else set()
            wanted |= {"413"} if method == "post" and "requestBody" in facts else set()
            assert wanted <= set(facts["responses"]), path
            for status in wanted:
                answer = facts["responses"][status]
                assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}
                assert answer["description"].endswith(".")


def test_every_refusal_has_the_shape_of_the_description(visitor, get, post):
    run, problem = visitor.run()
    with held(visitor.app_state.queue):
        post(f"/runs/{run}/counts", json={"values": [exact(problem)]})
        job = get(f"/runs/{run}/versions/1").json()["id"]
        post(f"/jobs/{job}/cancel")
    cancelled = get(f"/runs/{run}/versions/1")
    assert cancelled.status_code == 422 and cancelled.json()["error"] == cancelled.json()["words"]
    for answer in (
        get("/runs/none"),
        post(f"/runs/{run}/counts?based=0", json={"values": [exact(problem)]}),
        post(f"/runs/{run}/versions/1/follow-up", json={"pools": 0}),
        post(f"/runs/{run}/versions/1/follow-up", json={"pols": 3}),
    ):
        assert list(answer.json()) == ["error"] and answer.status_code in (404, 409, 422)


def test_what_simulations_showed_is_kept_for_the_next_server(tmp_path, monkeypatch):
    monkeypatch.setenv("QGT_CACHE", str(tmp_path / "cache"))
    with visiting(Settings(tmp_path / "runs", port=0, planning=1.0, calibrate=0.3)) as made:
        run, problem = made.run()
        made.client.post(f"{PREFIX}/runs/{run}/counts", content=table(problem)).raise_for_status()
        made.client.get(f"{PREFIX}/runs/{run}/versions/1", params={"wait": 60}).raise_for_status()
    assert list((tmp_path / "cache").rglob("*.calibration"))


def test_tokens_rates_and_the_log(tmp_path):
    settings = Settings(tmp_path / "runs", port=0, token="a long enough token", most_requests=5)
    with visiting(settings) as one:
        refused = one.client.get(f"{PREFIX}/health")
        assert refused.status_code == 401
        assert "Bearer" in refused.json()["error"]
        with_token = {"Authorization": "Bearer a long enough token"}
        assert one.client.get(f"{PREFIX}/health", headers=with_token).json()["status"] == "ok"
        evil = {**with_token, "Origin": "http://elsewhere.example"}
        assert one.client.post(f"{PREFIX}/plans", headers=evil, json={}).status_code == 403
        statuses = [one.client.get(f"{PREFIX}/health?secret=x", headers=with_token).status_code for _ in range(4)]
        assert statuses[-1] == 429
    lines = [json.loads(line) for line in (tmp_path / "runs" / "access.log").read_text().splitlines()]
    assert len(lines) == 7
    assert {"time", "client", "method", "path", "status", "ms"} == set(lines[0])
    assert "secret" not in (tmp_path / "runs" / "access.log").read_text()


def test_many_clients_at_once_lose_nothing(visitor):
    run, problem = visitor.run()
    found = {}

    def client(number):
        with httpx.Client(base_url=str(visitor.client.base_url), timeout=60) as own:
            sent = {"values": [exact(problem, (number,))], "names": [f"plate {number}"]}
            kept = own.post(f"{PREFIX}/runs/{run}/counts", json=sent).json()
            while (answer := own.get(kept["result"], params={"wait": 10})).status_code in (202, 429):
                threading.Event().wait(0.05)
            found[number] = answer.json()["results"][0]["answer"]

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [problem.design.item_names[number]] for number in range(8)}
    assert visitor.store.run(run).versions == 8


def test_the_client_of_the_documentation_runs(visitor, capsys):
    page = (Path(__file__).parents[2] / "docs" / "programs.md").read_text("utf-8")
    (code,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    port = str(visitor.client.base_url.port)
    names: dict[str, object] = {}
    exec(compile(code.replace("8421", port), "docs/programs.md", "exec"), names)
    names["server"].close()
    assert capsys.readouterr().out == "Plate 1 certain negative\n"
