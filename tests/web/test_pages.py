"""The pages over HTTP: plans, sheets, examples, downloads, the queue, and a server that starts again."""

import csv
import io
import json
import math
import re
import zipfile
from dataclasses import replace
from html import unescape

import pytest
import torch
from openpyxl import load_workbook
from visits import held, typed, visiting

import qgt
from qgt.lab.plan.folder import load_cells, read_plan
from qgt.lab.sheets.counts import read_counts
from qgt.web import decoding
from qgt.web.planning import asked
from qgt.web.state import Form

FILES = ("report.html", "report.xlsx", "report.csv", "calls.csv", "calls_by_sample.csv", "results.json")
NASTY = [
    "<script>alert(1)</script>",
    "=cmd|'/C calc'!A0",
    'a;b, "c"',
    "'; DROP TABLE runs;--",
    "{{ 7*7 }}",
    "\u202eabc",
]


def form_of(**changes):
    fields = {"name": "Small", "samples": "12", "names": "", "fewest": "0", "most": "1", "assay": "count", "off": "5"}
    fields |= {"missed": "2", "false": "1", "sigma": "0.3", "certainty": "90", "volume": "10"}
    return fields | {"most_pools": "", "largest_pool": "", "most_transfers": "4"} | changes


def test_the_first_page_begins_empty(settings):
    with visiting(settings) as visitor:
        text = visitor.get("/").text
    assert "None yet. Plan one, or try an example." in text
    assert text.count("<form") == 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"samples": "many"}, "Number of samples: samples=&#39;many&#39; is not valid: write a number."),
        ({"samples": "1"}, "Number of samples: samples=1 is not valid: write a number from 2 to 2000."),
        ({"samples": "9999999"}, "write a number from 2 to 2000"),
        ({"most": "13"}, "At most: most=13 is not valid: write a number from 0 to 12, or per cent."),
        ({"fewest": "0.01", "most": "0,03"}, "did you mean 1 to 3 % of the samples? Then write 1% and 3%."),
        ({"fewest": "1 %", "most": "3"}, "give both ends in per cent, or none"),
        ({"attack_rate": "40"}, "Attack rate (%): attack_rate=0.4 is for samples with households"),
        ({"fewest": "3", "most": "1"}, "positives=(3.0, 1.0) is not valid for 12 samples"),
        ({"certainty": "100"}, "Certainty (%): certainty=100 is not valid"),
        ({"assay": "magic"}, "assay=&#39;magic&#39; is not known"),
        ({"assay": "ct", "ct_sigma": "0", "limit": "38"}, "Standard error (cycles): ct_sigma=0 is not valid"),
        ({"assay": "off", "off": "-1"}, "Counts that may be off (%): off=&#39;-1&#39; is not valid"),
        ({"names": "a\nb\na"}, "names"),
        ({"volume": "inf"}, "Volume of each transfer"),
        ({"name": "x" * 101}, "name has 101 characters"),
        ({"most_pools": "2.5"}, "write a whole number"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why_and_keeps_the_form(visitor, change, said):
    answer = visitor.post("/plan", form_of(**change))
    assert answer.status_code == 422
    assert said in answer.text.replace("\N{NO-BREAK SPACE}", " ")
    assert 'name="most_transfers" value="4"' in answer.text


def test_a_plan_is_simulated_chosen_and_written(visitor):
    names = "\n".join(f"Sample {n}" for n in range(12))
    answer = visitor.finished(visitor.post("/plan", form_of(name="From a plan", names=names)))
    assert answer.url.path.startswith("/drafts/")
    assert answer.text.count("recommended</span>") == 1
    number = len(re.findall(r'name="candidate"', answer.text)) - 1
    pools = re.findall(r"(\d+) pools, \d per sample", answer.text)[number]
    assert visitor.post(answer.url.path, {"candidate": str(number + 1)}).status_code == 422
    printed = visitor.post(answer.url.path, {"candidate": str(number), "name": "Chosen"})
    assert "Sheets of Chosen" in printed.text
    run = printed.url.path.split("/")[2]
    kept = visitor.store.run(run)
    assert (kept.name, kept.facts["samples"], str(kept.facts["pools"])) == ("Chosen", 12, pools)
    for link in re.findall(r'href="(/runs/[^"]+/(?:sheets|files)/[^"]+)"', printed.text):
        page = visitor.get(link)
        assert page.status_code == 200 and page.content
    assert visitor.store.file(run, "problem.toml") is not None


def test_per_cent_and_decimal_commas_are_read_and_the_schemes_of_today_shown(visitor):
    fields = form_of(fewest="4", most="8,5 %", assay="positive", missed="2 %", false="0,5", certainty="60 %")
    answer = visitor.finished(visitor.post("/plan", fields))
    made = visitor.app_state.drafts.get(answer.url.path.split("/")[-1]).plan
    assert made.question.positives == pytest.approx((0.48, 1.02))
    assert made.question.assay == qgt.PositiveNegative(0.98, 0.995)
    assert made.question.follow_ups  # is usual for this assay
    assert not visitor_question(visitor, stages="one", assay="positive").follow_ups
    assert visitor_question(visitor, stages="two").follow_ups
    assert not visitor_question(visitor).follow_ups
    for one in made.classical:
        assert f'<th scope="row">{one.name}</th>' in answer.text


def test_a_plan_for_cycle_thresholds_becomes_a_run(visitor):
    cycles = {"assay": "ct", "ct_sigma": "0,2", "limit": "37", "dilution": "1", "load_mean": "25", "load_sd": "4"}
    answer = visitor.finished(visitor.post("/plan", form_of(**cycles, certainty="60")))
    made = visitor.app_state.drafts.get(answer.url.path.split("/")[-1]).plan
    assert made.question.assay == qgt.CycleThreshold(sigma=0.2, limit=37.0, dilution=1.0)
    assert made.question.loads.mean == pytest.approx(math.log10(made.question.assay.amount(25.0)))
    assert made.question.follow_ups  # is usual for this assay
    assert "detected up to cycle 37" in answer.text and "diluted beyond detection" in answer.text
    number = made.candidates.index(made.recommended)
    run = visitor.post(answer.url.path, {"candidate": str(number), "name": "PCR"}).url.path.split("/")[2]
    shown = [*made.candidates, *made.classical]
    assert table_of(answer.text, 2) == [load_cells(made, one) for one in shown]
    assert table_of(visitor.get(f"/runs/{run}").text, 2) == [load_cells(made, one) for one in made.candidates]
    prepared = visitor.app_state.bench.prepared(run)
    assert prepared.name == "load_posterior"
    assert prepared.problem.fingerprint == made.problem.fingerprint


def table_of(page: str, last: int) -> list[list[str]]:
    """The last cells of each row of the table of designs, whose last columns are those of loads."""
    table = re.search(r'<table class="candidates.*?</table>', page, re.DOTALL)[0]
    assert re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', table)[-last:] == ["sensitivity", "too weak"]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in table.split("<tr")[2:]]
    return [row[-last:] for row in rows if row]


def visitor_question(visitor, **changes):
    return asked(Form(form_of(**changes)), visitor.app_state)


def test_rates_of_households_are_asked_for_and_shown(visitor):
    rows = "".join(f"s{n},h{n // 3}\n" for n in range(12))
    fields = form_of(attack_rate="70", certainty="60", most_transfers="4")
    answer = visitor.finished(
        visitor.post("/plan", fields, files={"file": ("s.csv", f"sample,household\n{rows}".encode())})
    )
    text = answer.text.replace("\N{NO-BREAK SPACE}", " ")
    assert "70 % (attack rate)" in text
    assert "(background, the usual value)" in text


def test_the_demo_opens_where_decoders_differ(visitor):
    assert 'name="pools" type="number" min="12" max="60" value="20"' in visitor.finished(visitor.get("/demo")).text


def test_a_samples_file_is_read_and_refused_by_its_place(visitor):
    files = {"file": ("s.csv", b"sample,plate,well\na,X,A1\nb,X,A1\n")}
    answer = visitor.client.post("/plan", data={"word": visitor.word, **form_of()}, files=files)
    assert answer.status_code == 422
    assert "The file of samples" in answer.text or "wells" in answer.text


def test_how_a_samples_file_was_read_is_said(visitor):
    text = "Screening KW 46\nProben-ID;Geburtsjahr\n" + "".join(f"Größe {n};1971\n" for n in range(12))
    files = {"file": ("s.csv", text.encode("cp1252"))}
    data = {"word": visitor.word, **form_of()}
    draft = visitor.finished(visitor.client.post("/plan", data=data, files=files, follow_redirects=True))
    made = visitor.post(draft.url.path, {"candidate": "0"})
    run = visitor.get(f"/runs/{made.url.path.split('/')[2]}")
    for page in (draft, run):
        shown = unescape(page.text)
        assert "The list of samples: The text is not UTF-8; it was read as Windows-1252, as in 'Größe'." in shown
        assert "Row 2 was taken as the header; not read above it: 'Screening KW 46'." in shown
        assert "Not read: column 'Geburtsjahr'." in shown
    assert b"Row 2 was taken as the header" in visitor.store.file(made.url.path.split("/")[2], "README.txt")


def test_the_plan_as_a_folder_is_the_one_that_is_decoded(visitor, tmp_path):
    run, problem = visitor.run()
    archive = zipfile.ZipFile(io.BytesIO(visitor.get(f"/runs/{run}/plan.zip").content))
    archive.extractall(tmp_path)
    found = read_plan(tmp_path)
    assert found.problem.fingerprint == problem.fingerprint
    sheet = visitor.get(f"/runs/{run}/sheets/pooling_sheet.html")
    assert found.code in sheet.text and found.code in visitor.get(f"/runs/{run}").text
    assert "script-src" not in sheet.headers["content-security-policy"]  # default-src 'none' covers it
    assert "sandbox" in sheet.headers["content-security-policy"]
    for name in archive.namelist():
        answer = visitor.get(f"/runs/{run}/files/{name}")
        assert answer.content == archive.read(name)
        assert answer.headers["content-disposition"].startswith("attachment")


def test_every_download_is_what_it_says(visitor, tmp_path):
    run, problem = visitor.run()
    answer = visitor.enter(run, typed(problem))
    got = {
        name: visitor.get(f"{answer.url.path}/{name}") for name in re.findall(r'/versions/1/(\w+\.\w+)"', answer.text)
    }
    assert set(got) == {*FILES, "proofs.safetensors"}
    assert all(one.headers["content-disposition"].startswith("attachment; filename=") for one in got.values())
    positive = [problem.design.item_names[j] for j in (2, 7)]
    assert json.loads(got["results.json"].content)["results"][0]["answer"] == positive
    (row,) = csv.DictReader(io.StringIO(got["calls.csv"].text))
    assert [name for name, call in row.items() if call == "1"] == positive
    book = load_workbook(io.BytesIO(got["report.xlsx"].content))
    assert [name for name, call in book["calls"].iter_rows(min_row=2, values_only=True) if call == 1] == positive
    lines = list(csv.DictReader(io.StringIO(got["calls_by_sample.csv"].text)))
    assert [line["sample"] for line in lines if line["call"] == "positive"] == positive
    assert [tuple(row) for row in book["samples"].iter_rows(min_row=2, values_only=True)] == [
        (*(line[head] for head in ("plate", "well", "sample", "call")), float(line["probability"]), line["verdict"],
         line["check code"], line["counts"])
        for line in lines
    ]  # fmt: skip
    calls = json.loads(got["results.json"].content)["results"][0]["calls"]
    assert [line["call"] for line in lines] == list(calls.values())
    proofs = tmp_path / "proofs.safetensors"
    proofs.write_bytes(got["proofs.safetensors"].content)
    y = problem.design.matrix[:, [2, 7]].sum(1)[None].to(torch.float64)
    assert qgt.check_certificate(problem, y, qgt.load_certificate(proofs, problem, y)).all()
    report = visitor.get(f"{answer.url.path}/report")
    assert "content-disposition" not in report.headers and positive[0] in report.text
    assert visitor.get(f"{answer.url.path}/problem.toml").status_code == 404


def test_hostile_names_are_text_everywhere(visitor):
    names = [*NASTY, *(f"S{n}" for n in range(12 - len(NASTY)))]
    run, problem = visitor.run(name=NASTY[0], names=names)
    answer = visitor.enter(run, typed(problem, (0, 1), name=NASTY[4]))
    pages = [answer.text, *(visitor.get(path).text for path in ("/", f"/runs/{run}", f"/runs/{run}/counts?version=1"))]
    pages += [visitor.get(f"/runs/{run}/sheets/pooling_sheet.html").text, visitor.get(f"{answer.url.path}/report").text]
    for page in pages:
        assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in pages[0] and "{{ 7*7 }}" in pages[0]
    for name in ("calls.csv", "report.csv"):
        rows = list(csv.reader(io.StringIO(visitor.get(f"{answer.url.path}/{name}").text)))
        assert not any(cell.startswith(("=", "+", "@", "\t")) for row in rows for cell in row)


def test_an_example_by_one_click(visitor):
    answer = visitor.finished(visitor.post("/examples/clear"))
    assert "Calls of A clear plate" in answer.text
    assert visitor.post("/examples/none").status_code == 404
    answer = visitor.finished(visitor.post("/examples/pcr"))
    assert "Calls of A plate of a PCR machine" in answer.text and "Ct " in answer.text
    assert "certain" in answer.text and "Not covered: positives with a Ct above" in answer.text
    assert "A clear plate" in visitor.get("/").text


def test_the_demo_is_the_same_for_the_same_seed(visitor):
    first = visitor.finished(visitor.get("/demo?pools=40&seed=3", follow_redirects=True))
    assert "The truth, which the decoder never saw" in first.text
    again = visitor.finished(visitor.get("/demo?pools=40&seed=3", follow_redirects=True))
    assert first.text == again.text
    assert visitor.get("/demo?pools=5").status_code == 422
    assert visitor.get("/demo?pools=x").status_code == 404
    assert visitor.get("/demo?seed=-1").status_code == 422


def test_a_restart_loses_nothing(settings):
    with visiting(settings) as visitor:
        run, problem = visitor.run("Kept")
        word = visitor.word
        sent = visitor.post(f"/runs/{run}/counts", typed(problem), follow=False)
        assert sent.status_code == 303  # acknowledged, and not decoded: nobody has looked
        assert visitor.store.result(run, 1) is None
    with visiting(settings) as visitor:
        assert "Kept" in visitor.get("/").text
        page = visitor.finished(visitor.get(sent.headers["location"]))
        assert problem.design.item_names[2] in page.text
        # A form that was opened before the restart is still good.
        again = visitor.client.post(f"/runs/{run}/counts", data={"word": word, **typed(problem, (1,))})
        assert again.headers["location"].endswith("/versions/2")


def test_a_full_queue_keeps_the_counts_and_says_so(settings):
    with visiting(replace(settings, workers=1, most_waiting=0)) as visitor:
        run, problem = visitor.run()
        page = visitor.post(f"/runs/{run}/counts", typed(problem))
        assert page.status_code == 429
        assert "These counts are kept" in page.text
        assert visitor.post("/plan", form_of()).status_code == 429
        assert visitor.post("/examples/clear").status_code == 429
        assert visitor.get("/demo").status_code == 429
        assert len(visitor.store.submissions(run)) == 1


def test_a_decode_can_be_cancelled_and_begun_again(visitor):
    run, problem = visitor.run()
    version = visitor.store.submit(run, "typed", "", b"", {
        "names": ["1"], "pools": list(problem.design.pool_names), "notes": [],
        "values": [problem.design.matrix[:, [1]].sum(1).double().tolist()],
    })  # fmt: skip
    with held(visitor.app_state.queue) as let_go:
        page = visitor.get(f"/runs/{run}/versions/{version}")
        assert "Waiting." in page.text
        job = re.search(r'action="(/jobs/\w+/cancel)"', page.text)[1]
        cancelled = visitor.post(job)
        assert "This was cancelled." in cancelled.text
        assert "This was cancelled." in visitor.get(f"/runs/{run}/versions/{version}").text
        let_go()
    again = visitor.finished(visitor.post(f"/runs/{run}/versions/{version}/decode"))
    assert problem.design.item_names[1] in again.text
    assert visitor.get("/jobs/0123").status_code == 404
    assert visitor.post("/jobs/0123/cancel").status_code == 404
    assert visitor.post(f"/runs/{run}/versions/99/decode").status_code == 404


def test_a_follow_up_round_settles_a_plate_in_doubt(visitor, tmp_path):
    run, problem = visitor.run("In doubt")
    truth = (2, 7, 9)
    fields = {**typed(problem, truth), **{f"count-0-{n}": "" for n in range(5)}}  # few pools were counted
    answer = visitor.enter(run, fields)
    assert "Settle what is in doubt" in answer.text
    assert visitor.get(f"{answer.url.path}/follow-up").status_code == 404
    assert visitor.post(f"{answer.url.path}/follow-up", {"pools": "0"}).status_code == 422
    for _ in range(6):
        asked = visitor.finished(visitor.post(f"{answer.url.path}/follow-up", {"pools": "4"}))
        assert asked.url.path.endswith("/follow-up")
        pools = re.findall(r'<tr><th scope="row">R\d+-\w+-\d+</th><td>(.*?)</td>', asked.text, flags=re.DOTALL)
        names = [re.findall(r'class="found plain">([^<]+)<', pool) for pool in pools]
        assert names and len(names) <= 4
        positive = {problem.design.item_names[j] for j in truth}
        empty = visitor.post(f"{asked.url.path}/counts", {})
        assert empty.status_code == 422 and "no counts were typed" in empty.text
        counts = {f"count-{n}": str(len(positive & set(pool))) for n, pool in enumerate(names)}
        old, answer = answer, visitor.finished(visitor.post(f"{asked.url.path}/counts", counts))
        if "Settle what is in doubt" not in answer.text:
            break
    assert ("certain" in answer.text and "2 rounds" in answer.text) or "rounds." in answer.text
    found = re.search(r'<p class="answer">(.*?)</p>', answer.text, flags=re.DOTALL)[1]
    assert re.findall(r">([^<]+)</b>", found) == [problem.design.item_names[j] for j in truth]
    events = [event for event in visitor.store.trail(run) if event.what not in ("counts decoded", "counts refused")]
    assert [(event.what, event.detail) for event in events[1:4]] == [
        ("counts entered", "version 1, typed"),
        ("follow-up proposed", "after version 1"),
        ("follow-up counts entered", "round 2, as version 2"),
    ]
    again = visitor.post(f"{old.url.path}/follow-up/counts", counts)  # the same once more is the same version
    assert again.status_code == 200 and again.url.path == answer.url.path
    names = re.findall(r'/versions/\d+/(\w+\.\w+)"', answer.text)
    assert set(names) == {*FILES, "proofs.zip"}
    report = visitor.get(f"{answer.url.path}/report")
    assert report.status_code == 200 and "later round" in report.text
    with zipfile.ZipFile(io.BytesIO(visitor.get(f"{answer.url.path}/proofs.zip").content)) as archive:
        archive.extractall(tmp_path)
    problem = qgt.Problem.load(tmp_path / "1" / "problem.toml")
    y = read_counts(tmp_path / "1" / "counts.csv", problem.design).y
    proved = qgt.load_certificate(tmp_path / "1" / "proofs.safetensors", problem, y)
    assert qgt.check_certificate(problem, y, proved).all()
    assert proved.x[0].nonzero().flatten().tolist() == list(truth)


def test_the_rounds_of_a_version_are_decoded_once(visitor, monkeypatch):
    seen, real = [], decoding.decode_history
    monkeypatch.setattr(decoding, "decode_history", lambda *given, **more: seen.append(given) or real(*given, **more))
    run, problem = visitor.run("Asked twice")
    answer = visitor.enter(run, {**typed(problem, (2, 7, 9)), **{f"count-0-{n}": "" for n in range(5)}})
    first, second = (
        visitor.finished(visitor.post(f"{answer.url.path}/follow-up", {"pools": pools})) for pools in ("4", "3")
    )
    assert first.url == second.url and len(seen) == 1
    boxes = re.findall(r'name="(count-\d+)"', second.text)
    more = visitor.post(f"{second.url.path}/counts", dict.fromkeys([*boxes, "count-9"], "0"))
    assert more.status_code == 422 and "give one for each pool" in more.text
    counts = dict.fromkeys(boxes, "0")
    answer = visitor.finished(visitor.post(f"{second.url.path}/counts", counts))
    assert answer.url.path.endswith("/versions/2") and len(seen) == 2
    visitor.finished(visitor.post(f"{answer.url.path}/follow-up", {"pools": "4"}))
    assert len(seen) == 2


def test_impossible_counts_are_counted_again_instead(visitor):
    run, problem = visitor.run("Wrong")
    fields = typed(problem)
    fields["count-0-0"] = str(int(fields["count-0-0"]) + 1)
    answer = visitor.enter(run, fields)
    asked = visitor.finished(visitor.post(f"{answer.url.path}/follow-up", {"pools": "4"}))
    assert "its counts do not fit. Count P1 again" in re.sub(r"<[^>]+>", "", asked.text)
    assert visitor.post(f"{asked.url.path}/counts", {"count-0": "1"}).status_code == 422
    assert visitor.get(f"{asked.url.path}/pools.csv").status_code == 404


def test_a_follow_up_of_results_takes_words(visitor):
    run, problem = visitor.run("Words", assay=qgt.PositiveNegative(0.99, 0.99))
    answer = visitor.enter(run, {**typed(problem, (2,)), **{f"count-0-{n}": "" for n in range(5)}, "count-0-5": "neg"})
    asked = visitor.finished(visitor.post(f"{answer.url.path}/follow-up", {"pools": "2"}))
    boxes = re.findall(r'name="(count-\d+)" value="" inputmode="text"', asked.text)
    assert boxes
    wrong = visitor.post(f"{asked.url.path}/counts", dict.fromkeys(boxes, "n.d."))
    assert wrong.status_code == 422 and "which may mean not detected or not done" in wrong.text
    visitor.finished(visitor.post(f"{asked.url.path}/counts", dict.fromkeys(boxes, "negativ")))
    (entered,) = visitor.store.submission(run, 2).counts["rounds"]
    assert entered["counts"] == [0.0] * len(boxes)
