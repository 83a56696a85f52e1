"""Counts on the page: typed, pasted and sent as files; corrected, refused, and never lost."""

import dataclasses
import io
import math
import re
import zipfile
from html import unescape

import pytest
import torch
from visits import small_plan

import qgt
from qgt.model.noise import PositiveNegative

POSITIVE = [2, 7]


def counts(problem, positives=POSITIVE):
    return [int(count) for count in problem.design.matrix[:, positives].sum(1)]


def boxes(values, plate=0, name="Monday 1"):
    found = {f"count-{plate}-{pool}": str(value) for pool, value in enumerate(values)}
    return {"way": "typed", f"plate-{plate}": name, **found}


def trouble(answer):
    assert answer.status_code == 422
    found = re.search(r'role="alert"[^>]*>(.*?)</div>', answer.text, flags=re.DOTALL)[1]
    return " ".join(unescape(re.sub(r"<[^>]+>", "", found)).split())


def answer_of(text):
    found = re.search(r'<p class="answer">(.*?)</p>', text, flags=re.DOTALL)[1]
    return re.findall(r">([^<]+)</b>", found)


@pytest.fixture(scope="module")
def refused(visitor):
    """A run whose counts are never taken."""
    return visitor.run()


@pytest.mark.parametrize("way", ["typed", "pasted", "pasted in rows", "file", "workbook"])
def test_every_way_gives_the_same_calls(visitor, way):
    run, problem = visitor.run()
    values, pools = counts(problem), problem.design.pool_names
    wide = f"instance,{','.join(pools)}\nMonday 1,{','.join(map(str, values))}\n"
    rows = "\n".join(f"{pool}\t{value}" for pool, value in zip(pools, values, strict=True))
    if way == "typed":
        fields, files = boxes(values), None
    elif way.startswith("pasted"):
        fields, files = {"way": "pasted", "pasted": rows if "rows" in way else wide}, None
    else:
        fields = {"way": "uploaded"}
        files = {"file": ("..\\..\\evil.exe", wide.encode() if way == "file" else workbook(pools, values))}
    answer = visitor.enter(run, fields, files=files)
    assert answer.status_code == 200, trouble(answer)
    assert answer.url.path == f"/runs/{run}/versions/1"
    assert answer_of(answer.text) == [problem.design.item_names[j] for j in POSITIVE]
    assert answer.text.count('<td class="positive"') == 2
    (kept,) = visitor.store.submissions(run)
    assert kept.way == fields["way"]
    assert kept.counts["values"] == [values]


def workbook(pools, values):
    from openpyxl import Workbook

    book = Workbook()
    for row in (("pool", "count"), *zip(pools, values, strict=True)):
        book.active.append(row)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def test_a_correction_is_a_new_version_and_says_why(visitor):
    run, problem = visitor.run()
    first, second = counts(problem), counts(problem, [4])
    visitor.enter(run, boxes(first))
    form = visitor.get(f"/runs/{run}/counts?version=1").text
    assert re.findall(r'name="count-0-\d+" value="(\d*)"', form) == [str(value) for value in first]
    answer = visitor.enter(run, {**boxes(second), "based": "1", "note": "P3 was misread"})
    assert answer.url.path.endswith("/versions/2")
    assert answer_of(answer.text) == [problem.design.item_names[4]]
    old = visitor.get(f"/runs/{run}/versions/1").text
    assert "There is a newer version" in old
    assert answer_of(old) == [problem.design.item_names[j] for j in POSITIVE]
    page = visitor.get(f"/runs/{run}").text
    assert "P3 was misread" in page and "counts corrected" in page
    assert visitor.get(f"/runs/{run}/versions/1/counts").text.splitlines()[1].endswith(",".join(map(str, first)))


def test_the_same_counts_twice_are_one_version(visitor):
    run, problem = visitor.run()
    for _ in range(2):
        assert visitor.enter(run, boxes(counts(problem))).url.path.endswith("/versions/1")
    assert len(visitor.store.submissions(run)) == 1


def test_somebody_else_was_quicker(visitor):
    run, problem = visitor.run()
    visitor.enter(run, {**boxes(counts(problem)), "based": "0"})
    mine = {**boxes(counts(problem, [1])), "based": "0"}
    answer = visitor.enter(run, mine)
    assert "version 1 was entered while you were at this form" in trouble(answer)
    assert f'value="{mine["count-0-0"]}"' in answer.text  # what was typed is still there
    assert 'name="based" value="1"' in answer.text
    assert visitor.enter(run, {**mine, "based": "1"}).url.path.endswith("/versions/2")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"count-0-2": "three"},
            "P3 of Monday 1 holds 'three': write a finite number, or leave the cell empty if it is missing.",
        ),
        ({"count-0-2": "1,000"}, "P3 of Monday 1 holds '1,000': write 1000 if the mark groups digits"),
        ({"count-0-2": "1_0"}, "P3 of Monday 1 holds '1_0': write a finite number"),
        ({"count-0-2": "\u0663"}, "P3 of Monday 1 holds '\u0663': write a finite number"),
        ({"count-0-2": "nan"}, "P3 of Monday 1 holds 'nan'"),
        ({"count-0-2": "1e999"}, "P3 of Monday 1 holds '1e999'"),
        ({f"count-0-{n}": "" for n in range(8)}, "Monday 1 has no counts: fill in its boxes."),
        ({"plate-0": "a\tb\x07"}, "holds characters that do not print"),
        ({"plate-1": "Monday 1", "count-1-0": "1"}, "'Monday 1' is the name of two plates: give each its own."),
        ({"note": "x" * 501}, "note has 501 characters: write 500 at most."),
        ({"way": "guessed"}, "way is missing"),
    ],
)
def test_typed_counts_that_cannot_be_taken(visitor, refused, change, said):
    run, problem = refused
    answer = visitor.enter(run, {**boxes(counts(problem)), **change})
    assert said in trouble(answer)
    assert visitor.store.submissions(run) == []
    assert visitor.store.trail(run)[-1].what == "counts refused"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no file was chosen, or it is empty"),
        (b"pool,count\nP1,x\n", "The file: "),
        (b"\xff\xfe\x00\x01\xd8", "The file: "),
        (b"PK\x03\x04 this is no workbook", "The file: "),
        (b"\x00" * 100, "The file: "),
        (b"a,b\n1,2\n", "The file: "),
        (b"=cmd|' /C calc'!A0,1\n", "The file: "),
    ],
)
def test_files_that_cannot_be_read_are_refused_by_their_place(visitor, refused, content, said):
    run, _ = refused
    answer = visitor.enter(run, {"way": "uploaded"}, files={"file": ("counts.csv", content)})
    assert trouble(answer).startswith(f"This was not taken. {said}")
    assert "/tmp" not in answer.text
    assert visitor.store.submissions(run) == []


def test_a_missing_count_is_missing_and_a_minus_is_kept(visitor):
    run, problem = visitor.run()
    values = counts(problem)
    answer = visitor.enter(run, boxes(["", *values[1:]]))
    assert visitor.store.submissions(run)[0].counts["values"] == [[None, *values[1:]]]
    assert "missing" in answer.text


def test_impossible_counts_call_nothing(visitor):
    run, problem = visitor.run()
    values = counts(problem)
    answer = visitor.enter(run, boxes([values[0] + 1, *values[1:]]))
    assert "No sample is called." in answer.text
    assert answer.text.count('<td class="none"') == problem.items
    assert '<td class="negative"' not in answer.text
    calls = visitor.get(answer.url.path + "/calls.csv").text.splitlines()[1]
    assert set(calls.removeprefix("Monday 1")) == {","}


def test_a_result_of_an_earlier_version_is_not_shown(visitor):
    """Its files could have 0 for a sample in doubt, and its accounts have no calls."""
    run, problem = visitor.run()
    given = {"names": ["1"], "pools": list(problem.design.pool_names), "values": [counts(problem)], "notes": []}
    version = visitor.store.submit(run, "typed", "", b"", given)
    old = {"instance": "1", "verdict": "unsure", "confidence": 0.5, "defective": [], "undecided": [], "retests": []}
    facts = {"results": [old], "verdicts": {"unsure": 1}, "file": [], "file_suspect": False, "seconds": 0.1}
    visitor.store.add_result(run, version, facts, {"calls.csv": b"instance,S1\n1,0\n"})
    page = visitor.get(f"/runs/{run}/versions/{version}")
    assert page.status_code == 410 and "Enter these counts again" in page.text and "negative" in page.text
    assert visitor.get(f"/runs/{run}/versions/{version}/calls.csv").status_code == 410
    assert visitor.get(f"/runs/{run}/counts?version={version}").status_code == 200


def test_large_sheets_are_refused(visitor, refused):
    run, problem = refused
    rows = "\n".join(f"plate {n},{','.join(['0'] * problem.pools)}" for n in range(101))
    pasted = f"instance,{','.join(problem.design.pool_names)}\n{rows}\n"
    said = trouble(visitor.enter(run, {"way": "pasted", "pasted": pasted}))
    assert said.endswith("There are 101 rows: send 100 at most at once.")


def test_many_plates_at_once_and_their_correction(visitor):
    run, problem = visitor.run()
    values = ",".join(map(str, counts(problem)))
    lines = "\n".join(f"plate {n},{values}" for n in range(30))
    pasted = f"instance,{','.join(problem.design.pool_names)}\n{lines}\n"
    answer = visitor.enter(run, {"way": "pasted", "pasted": pasted})
    assert answer.text.count('<article class="call"') == 20  # the others stand in the table
    assert re.findall(r'<th scope="row">(plate \d+)</th>', answer.text)[-30:] == [f"plate {n}" for n in range(30)]
    assert "All 30 sets of counts" in answer.text
    form = visitor.get(f"/runs/{run}/counts?version=1").text
    assert "more rows than fit into boxes" in form  # boxes for some would lose the others
    assert form.count("<fieldset") == 1


def test_a_form_for_several_plates(visitor, refused):
    run, _ = refused
    assert visitor.get(f"/runs/{run}/counts?plates=3").text.count("<fieldset") == 3
    assert visitor.get(f"/runs/{run}/counts?plates=999").text.count("<fieldset") == 12
    assert visitor.get(f"/runs/{run}/counts?plates=-1").text.count("<fieldset") == 1
    assert visitor.get(f"/runs/{run}/counts?version=9").status_code == 200


# --- sheets as laboratories have them ---------------------------------------------------------------------------------


def results(problem, positives=POSITIVE, words=("neg", "POS")):
    return [words[count > 0] for count in counts(problem, positives)]


@pytest.mark.parametrize("way", ["typed", "pasted", "uploaded"])
def test_words_of_a_positive_negative_assay_are_read_and_said(visitor, way):
    run, problem = visitor.run(assay=PositiveNegative(0.99, 0.99))
    values, pools = results(problem), problem.design.pool_names
    sheet = "Lauf 46\nPool;Ergebnis;Gerät\n" + "".join(f"{p};{v};7\n" for p, v in zip(pools, values, strict=True))
    fields = boxes(values) if way == "typed" else {"way": way, "pasted": sheet}
    files = {"file": ("c.csv", sheet.encode("cp1252"))} if way == "uploaded" else None
    answer = visitor.enter(run, fields, files=files)
    assert answer.status_code == 200, trouble(answer)
    (kept,) = visitor.store.submissions(run)
    assert kept.counts["values"] == [[float(value == "POS") for value in values]]
    yes, no = values.count("POS"), values.count("neg")
    shown = unescape(answer.text)
    assert f"8 cells read as words: {no} negative (neg), {yes} positive (POS)." in shown
    if way != "typed":
        assert "Row 2 was taken as the header; not read above it: 'Lauf 46'." in shown
        assert "Not read: column 'Gerät'." in shown
    assert ("read as Windows-1252" in shown) == (way == "uploaded")


def test_the_form_of_a_positive_negative_assay_asks_for_words(visitor):
    run, problem = visitor.run(assay=PositiveNegative(0.99, 0.99))
    form = visitor.get(f"/runs/{run}/counts").text
    assert "Write 1 or 0, positive or negative" in form and 'inputmode="decimal"' not in form
    assert 'data-weight="0"' in form and "|not detected|" in form  # results do not add up
    for cell, said in (("n.d.", "P3 of Monday 1 holds 'n.d.', which may mean not detected or not done: write 0"),
                       ("Ann", "P3 of Monday 1 holds 'Ann': write 1 or 0, or positive or negative.")):  # fmt: skip
        answer = visitor.enter(run, {**boxes(results(problem)), "count-0-2": cell})
        assert said in trouble(answer)
    other, _ = visitor.run()
    assert 'inputmode="decimal"' in visitor.get(f"/runs/{other}/counts").text


def test_refused_sheets_do_not_fill_the_history(visitor):
    run, _ = visitor.run()
    for number in range(12):
        visitor.enter(run, {"way": "pasted", "pasted": f"wrong {number}"})
    events = [event.detail for event in visitor.store.trail(run) if event.what == "counts refused"]
    assert events[0] == "7 earlier, not listed" and len(events) == 6
    assert all(f"'wrong {number}'" in event for number, event in zip(range(7, 12), events[1:], strict=True))
    assert visitor.get(f"/runs/{run}").text.count("counts refused") == 6


@pytest.mark.parametrize("number", ["99999999999999999999", "9" * 5000, "-1", "0", "2147483648", "1e3", "x"])
def test_numbers_in_addresses_are_bounded(visitor, refused, number):
    run, _ = refused
    at = f"/runs/{run}/versions/{number}"
    for path in (at, f"{at}/counts", f"{at}/report", f"{at}/calls.csv", f"{at}/follow-up", f"{at}/follow-up/pools.csv"):
        assert visitor.get(path).status_code == 404, path
    for path in (f"{at}/decode", f"{at}/follow-up", f"{at}/follow-up/counts"):
        assert visitor.post(path, {"pools": "4"}).status_code == 404, path
    if number != "0":
        assert visitor.get(f"/runs/{run}/counts?version={number}").status_code == 404
    assert visitor.get(f"/demo?seed={number}").status_code in (200, 404, 422)
    assert visitor.get(f"/demo?pools={number}").status_code in (404, 422)


def test_an_impossible_plate_is_counted_again_and_not_settled(visitor):
    run, problem = visitor.run()
    values = counts(problem)
    answer = visitor.enter(run, boxes([values[0] + 1, *values[1:]]))
    assert "Count again" in answer.text and f'href="/runs/{run}/counts?version=1"' in answer.text
    assert "Settle what is in doubt" not in answer.text
    certain = visitor.enter(run, {**boxes(values), "based": "1"})
    assert "Count again</h2>" not in certain.text


def test_a_copies_sheet_names_nobody(visitor):
    run, _ = visitor.run()
    answer = visitor.enter(run, boxes([1263, 88412, 0, 5051, 940, 2210, 7300, 41000]))
    shown = " ".join(unescape(answer.text).split())
    assert "These numbers look like copies" in shown and "No sample is called." in shown
    assert "Look at" not in shown


def test_a_large_workbook_is_refused_before_it_is_read(visitor, refused):
    run, problem = refused
    small = workbook(problem.design.pool_names, counts(problem))
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(small)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "xl/worksheets/sheet1.xml":
                row = b"<row>" + b"<c><v>1</v></c>" * 300 + b"</row>"
                content = content.replace(b"</sheetData>", 900 * row + b"</sheetData>")
            new.writestr(name, content)
    answer = visitor.enter(run, {"way": "uploaded"}, files={"file": ("c.xlsx", stream.getvalue())})
    assert "The file: has more than 250,000 cells" in trouble(answer)


# --- cycle thresholds -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cycles_decoder():
    """A decoder of cycle thresholds for the pools of any small plan; it is calibrated once, by the first sheet."""
    prior, noise = qgt.Loads(rate=0.1, mean=3.5, sd=1.0), qgt.CycleThreshold(sigma=0.25, limit=38.0)
    problem = qgt.Problem(small_plan().problem.design, prior, noise)
    return qgt.Calibrated(qgt.LoadPosterior(), seconds=1.0).bind(problem)


@pytest.fixture
def cycles_run(visitor, cycles_decoder):
    """A run whose assay reports cycle thresholds, and what its pools report."""
    run, planned = visitor.run()
    decoder, problem = cycles_decoder, cycles_decoder.problem
    assert torch.equal(planned.design.matrix, problem.design.matrix)
    prepared = visitor.app_state.bench.prepared(run)
    named = dataclasses.replace(prepared, name="load_posterior", problem=problem, decoder=decoder)
    visitor.app_state.bench._runs.put(run, named)
    amounts = torch.zeros(1, problem.items, dtype=torch.float64)
    amounts[0, POSITIVE[0]] = 1000.0
    totals = amounts @ problem.design.matrix.to(amounts).T
    (usual,) = problem.noise.usual_report(totals, problem.design.pool_sizes.to(amounts)).tolist()
    return run, problem, ["not detected" if cycle == math.inf else round(cycle, 2) for cycle in usual]


def wells(problem, cycles):
    lines = ["Well,Sample Name,Target Name,CT"]
    for number, (pool, cycle) in enumerate(zip(problem.design.pool_names, cycles, strict=True)):
        lines += [f"A{number + 1},{pool},N1,{cycle}", f"A{number + 1},{pool},RP,24"]
    return "\n".join(lines).encode()


def test_the_file_of_a_machine_is_read_and_its_targets_are_asked_for(visitor, cycles_run):
    run, problem, cycles = cycles_run
    form = visitor.get(f"/runs/{run}/counts").text
    assert 'name="target"' in form and 'name="control"' in form and 'data-nothing="' in form
    file = {"file": ("run.csv", wells(problem, cycles))}
    said = trouble(visitor.enter(run, {"way": "uploaded"}, files=file))
    assert "the pools have 2 targets ('N1' and 'RP'); say which one to decode by --target NAME, or the field" in said
    answer = visitor.enter(run, {"way": "uploaded", "target": "N1", "control": "RP"}, files=file)
    assert answer.status_code == 200, trouble(answer)
    (kept,) = visitor.store.submissions(run)
    assert kept.counts["values"] == [cycles] and "not detected" in cycles
    assert answer_of(answer.text) == [problem.design.item_names[POSITIVE[0]]]
    assert "<b>not detected</b>" in answer.text


def test_cycles_that_are_typed_come_back_into_their_boxes(visitor, cycles_run):
    run, _, cycles = cycles_run
    answer = visitor.enter(run, boxes(["Undetermined" if cycle == "not detected" else cycle for cycle in cycles]))
    assert answer.status_code == 200, trouble(answer)
    (kept,) = visitor.store.submissions(run)
    assert kept.counts["values"] == [cycles]
    assert 'value="not detected"' in visitor.get(f"/runs/{run}/counts?version=1").text
    other, _ = visitor.run()
    assert 'name="target"' not in visitor.get(f"/runs/{other}/counts").text


def later_wells(pools, cells):
    """The pools of a round as a machine exports them."""
    lines = ["Well,Sample Name,Target Name,CT"]
    for number, (pool, cycle) in enumerate(zip(pools, cells, strict=True)):
        lines += [f"A{number + 1},{pool},N1,{cycle}", f"A{number + 1},{pool},RP,24"]
    return "\n".join(lines).encode()


@pytest.fixture
def in_doubt(visitor, cycles_run):
    """A run of cycle thresholds with a proposal: its address, page, and the names of its pools."""
    run, _, cycles = cycles_run
    visitor.enter(run, boxes(["", "", "", *cycles[3:]]))
    asked = visitor.finished(visitor.post(f"/runs/{run}/versions/1/follow-up", {"pools": "3"}))
    return run, asked, re.findall(r'<th scope="row">(R2-\w+-\d+)</th>', asked.text)


def test_a_round_is_read_from_the_file_of_a_machine(visitor, in_doubt):
    run, asked, pools = in_doubt
    assert pools and 'name="target"' in asked.text and "Run them on your machine under these names" in asked.text
    where = f"/runs/{run}/versions/1/follow-up/counts"
    file = {"file": ("run2.csv", later_wells(pools, ["Undetermined"] * len(pools)))}
    said = trouble(visitor.post(where, {"way": "uploaded", "target": "N1"}, files=file))
    assert "besides 'N1' the pools have 'RP'; say which one is the internal control" in said
    lacking = {"file": ("run2.csv", later_wells(["P1", *pools[1:]], ["Undetermined"] * len(pools)))}
    named = {"way": "uploaded", "target": "N1", "control": "RP"}
    said = trouble(visitor.post(where, named, files=lacking))
    assert "holds 'P1', but the round has no such pool" in said
    assert "no file was chosen" in trouble(visitor.post(where, {"way": "uploaded"}))
    answer = visitor.finished(visitor.post(where, named, files=file))
    assert answer.status_code == 200, trouble(answer)
    (entered,) = visitor.store.submission(run, 2).counts["rounds"]
    assert entered["counts"] == ["not detected"] * len(pools)
    assert "Round 2: Each row is a well" in answer.text and "The control RP amplified in every well." in answer.text
    assert "The control RP amplified in every well." in visitor.get(f"{answer.url.path}/report").text
    assert visitor.store.source(run, 2) == file["file"][1]


def test_cycles_of_a_round_may_be_typed(visitor, in_doubt):
    """Also where nothing was detected, which JSON has no number for."""
    run, asked, pools = in_doubt
    code = re.search(r'name="code" value="(\w+)"', asked.text)[1]
    fields = {"code": code, **{f"count-{n}": "Undetermined" for n in range(len(pools))}}
    answer = visitor.finished(visitor.post(f"/runs/{run}/versions/1/follow-up/counts", fields))
    assert answer.status_code == 200 and "2 rounds" in answer.text
    again = visitor.post(f"/runs/{run}/versions/1/follow-up/counts", fields)
    assert again.url.path.endswith("/versions/2")


def test_what_was_typed_for_one_proposal_is_not_in_the_boxes_of_another(visitor, in_doubt):
    run, asked, pools = in_doubt
    where = f"/runs/{run}/versions/1/follow-up"
    second = visitor.finished(visitor.post(where, {"pools": "1"}))
    codes = [re.search(r'name="code" value="(\w+)"', page.text)[1] for page in (asked, second)]
    assert codes[0] != codes[1]
    fields = {f"count-{n}": "27.5" for n in range(len(pools))} | {"count-0": "late"}
    first = visitor.post(f"{where}/counts", {"code": codes[0], **fields})
    assert first.status_code == 422 and f"{pools[0]} of" in trouble(first)
    assert first.text.count('value="27.5"') == len(pools) - 1 and f'name="code" value="{codes[0]}"' in first.text
    without = visitor.post(f"{where}/counts", fields)
    assert "2 proposals were made after version 1" in trouble(without)
    assert 'value="27.5"' not in without.text and f'name="code" value="{codes[1]}"' in without.text


def test_a_program_sends_the_machines_file_of_a_round(visitor, in_doubt):
    run, _, pools = in_doubt
    where = f"/api/v1/runs/{run}/versions/1/follow-up/counts"
    table = later_wells(pools, ["Undetermined"] * len(pools))
    refused = visitor.client.post(where, content=table)
    assert refused.status_code == 422 and "the pools have 2 targets ('N1' and 'RP')" in refused.json()["error"]
    kept = visitor.client.post(f"{where}?target=N1&control=RP", content=table)
    assert kept.status_code == 201 and "The control RP amplified in every well." in kept.json()["notes"]
    calls = visitor.client.get(kept.json()["result"], params={"wait": 60}).json()
    assert calls["rounds"] == 2 and any(note.startswith("Round 2: ") for note in calls["notes"])
