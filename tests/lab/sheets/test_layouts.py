"""Spoiled sheets: read right or refused by their place. `benchmarks/bad_sheets.py` tries many more."""

import io
import zipfile

import pytest
import torch

import qgt
import qgt.lab.reported
from qgt.files import grids
from qgt.files.grids import read_grids
from qgt.files.tables import number
from qgt.lab.answers.decoding import decode_sheet
from qgt.lab.reported import REPORT_WORDS, read_reports
from qgt.lab.sheets.counts import read_counts
from qgt.lab.sheets.names import label
from qgt.lab.sheets.samples import Samples
from spoiled_sheets import CHANGES, judged, random_case, refused


@pytest.mark.parametrize("start", range(0, 150, 50))
def test_no_wrong_value_is_taken(start):
    for seed in range(start, start + 50):
        assert judged(random_case(seed)) is None, seed


def test_right_sheets_are_read_and_not_only_refused():
    cases = [random_case(seed) for seed in range(150)]
    right = [case for case in cases if case.readable]
    assert len(right) > 60
    assert len(right) < 140
    assert not any(refused(case) for case in right)
    assert {case.layout for case in right} == {"wide", "long", "tidy", "plate"}
    assert len(CHANGES) > 15


def test_a_reader_that_guesses_is_caught(monkeypatch):
    """The judge itself: a reader that takes what it can of a cell is found out."""

    def guess(cell, *, commas):
        digits = "".join(character for character in cell if character.isascii() and character.isdigit())
        value = number(cell, commas=commas)
        return value if not isinstance(value, str) else float(digits or 0)

    monkeypatch.setattr(qgt.lab.reported, "number", guess)
    assert any(judged(random_case(seed)) for seed in range(100))


# Sheets as laboratories have them: words, titles, other columns, headers and encodings; and what stays refused.

DESIGN = qgt.Design.from_rows(["110", "011"])
RESULTS = qgt.PositiveNegative(0.95, 0.99)


def read(text, noise=None, design=DESIGN, samples=None):
    return read_counts("c.csv", design, samples, noise=noise, data=text if isinstance(text, bytes) else text.encode())


def values(sheet):
    return [[value if value == value else None for value in row] for row in sheet.y.tolist()]


# --- words of positive/negative assays --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("positive", "negative"),
    [
        ("positive", "negative"), ("Pos", "Neg"), ("POS", "NEG"), ("pos.", "neg."), ("+", "-"), ("+", "\u2212"),
        ("+", "\u2013"), ("detected", "not detected"), ("Detected", "Not_Detected"), ("reactive", "non-reactive"),
        ("Reactive", "Non Reactive"), ("present", "absent"), ("positiv", "negativ"),
        ("nachgewiesen", "nicht nachgewiesen"), ("reaktiv", "nicht  reaktiv"), ("1", "0"), ("1", "negative"),
    ],
)  # fmt: skip
def test_words_of_laboratories_and_instruments_are_read(positive, negative):
    for text in (
        f"pool,result\nP1,{positive}\nP2,{negative}\n",
        f"x,P1,P2\nMonday,{positive},{negative}\n",
        f"Pool;Ergebnis\nP2; {negative} \nP1;{positive}\n",
        f"{positive},{negative}\n",
    ):
        assert values(read(text, RESULTS)) == [[1.0, 0.0]]
    if not positive.isdigit():
        with pytest.raises(ValueError, match="row 2, column 2 holds "):
            read(f"pool,count\nP1,{positive}\nP2,0\n", qgt.Noiseless())


def test_what_was_read_as_what_is_said():
    design = qgt.Design.from_matrix(torch.eye(24, dtype=torch.uint8))
    cells = ["neg"] * 20 + ["POS"] * 3 + ["positiv"]
    text = "pool,result\n" + "".join(f"P{i + 1},{cell}\n" for i, cell in enumerate(cells))
    assert read(text, RESULTS, design).notes[-1] == (
        "24 cells read as words: 20 negative (neg), 4 positive (POS and positiv)."
    )
    sheet = read("pool,result\nP1,invalid\nP2,pos\n", RESULTS)
    assert values(sheet) == [[None, 1.0]]
    assert sheet.notes[1:] == (
        "2 cells read as words: 1 positive (pos), 1 missing (invalid).",
        "1 of 2 results is missing: P1.",
    )


@pytest.mark.parametrize(
    "gone", ["invalid", "Inconclusive", "ungültig", "fehlgeschlagen", "not done", "nicht auswertbar"]
)
def test_results_that_failed_are_missing(gone):
    assert values(read(f"pool,result\nP1,{gone}\nP2,neg\n", RESULTS)) == [[None, 0.0]]
    with pytest.raises(ValueError, match="which is not a number; leave the cell empty if the pool was not measured"):
        read(f"pool,result\nP1,{gone}\nP2,1\n", qgt.Noiseless())


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("n.d.", "may mean not detected or not done; write 0 or negative if nothing was detected, or leave the cell"),
        ("ND", "may mean not detected or not done"),
        ("n. d.", "may mean not detected or not done"),
        ("Undetermined", "may mean not detected or not done"),
        ("-", "may mean negative or not measured"),
        ("yes", "does not say what the question was; write 1 or 0, or positive or negative"),
        ("nein", "does not say what the question was"),
        ("OVRFLW", "a value too large to measure, which is not a missing one; measure the pool again"),
        ("weak", "holds 'weak'; write 1 or 0, or positive or negative"),
        ("Ann", "holds 'Ann'; write 1 or 0, or positive or negative"),
    ],
)  # fmt: skip
def test_words_with_two_meanings_are_refused_with_both(cell, said):
    with pytest.raises(
        ValueError, match=f"row 3, column 2 holds .*{said}" if "holds" not in said else f"row 3.*{said}"
    ):
        read(f'pool,result\nP1,positive\nP2,"{cell}"\n', RESULTS)


def test_a_dash_is_negative_only_where_plus_signs_are_the_positives():
    assert values(read("pool,result\nP1,+\nP2,-\n", RESULTS)) == [[1.0, 0.0]]
    for others in ("-", "negative", "0", "1"):
        with pytest.raises(ValueError, match="may mean negative or not measured"):
            read(f"pool,result\nP1,{others}\nP2,-\n", RESULTS)
    with pytest.raises(ValueError, match="may mean negative or not measured"):
        read("x,P1,P2\na,+,-\nb,neg,-\n", RESULTS)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (
            "positive",
            "this assay does not report positive or negative; write the number of positive samples in the pool",
        ),
        ("neg", "this assay does not report positive or negative"),
        ("n.d.", "may mean not detected or not done; write 0 if nothing was detected, or leave the cell empty"),
        ("OVRFLW", "a value too large to measure, which is not a missing one"),
        ("overflow", "a value too large to measure"),
        (">40", "a limit and not a value"),
        ("x", "write a finite number, or leave the cell empty"),
    ],
)
def test_words_are_refused_for_counts(cell, said):
    for noise in (None, qgt.Noiseless(), qgt.Gaussian(0.3)):
        with pytest.raises(ValueError, match=f"row 2, column 2 holds .*{said}"):
            read(f"pool,count\nP1,{cell}\nP2,1\n", noise)
    with pytest.raises(
        ValueError, match=r"row 2, column 2 holds .*(write the number of a range|too large|may mean|a limit)"
    ):
        read(f"pool,count\nP1,{cell}\nP2,1\n", qgt.Binned([1, 5]))


def test_pools_of_different_kinds_are_each_read_as_they_are():
    noise = qgt.PerPool([RESULTS, qgt.Noiseless()])
    assert values(read("x,P1,P2\na,pos,2\n", noise)) == [[1.0, 2.0]]
    with pytest.raises(ValueError, match="row 2, column 3 holds 'neg', but this assay"):
        read("x,P1,P2\na,pos,neg\n", noise)


def test_no_word_has_two_meanings_in_our_own_list():
    for noise in (RESULTS,):
        for text, value in REPORT_WORDS.items():
            (((found,),), _) = read_reports([[text]], noise, lambda i, pool: "here")
            assert found == value or (found != found and value != value)


# --- titles, columns, headers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Screening KW 46\npool,count\nP1,1\nP2,2\n",
            ["Row 2 was taken as the header; not read above it: 'Screening KW 46'."],
        ),
        (
            "Screening KW 46\nDatum;12.11.2026\n\nPool;Anzahl;Bearbeiter\nP1;1;Ann\nP2;2;Bob\n",
            [
                "Row 4 was taken as the header; not read above it: 'Screening KW 46', 'Datum', '12.11.2026'.",
                "Not read: column 'Bearbeiter'.",
            ],
        ),
        ("Results\nplate,P1,P2,operator\na,1,2,Ann\n", ["Row 2 was taken", "Not read: column 'operator'."]),
        ("Datum,Platte,P1,P2\n12.11.,a,1,2\n", ["Column 'Platte' names the instances.", "Not read: column 'Datum'."]),
        ("Well;Probe;Ct;Ergebnis\nA1;Pool 1;23,1;1\nB1;Pool 2;24,5;2\n", ["Not read: columns 'Probe', 'Ct'."]),
        ("Position,Ergebnis\nA01,1\nB01,2\nC01,\n", ["Wells are read down the columns: A1 is P1."]),
        ("Probe,Ergebnis\nNTC,0\nP1,1\nP2,2\nPositivkontrolle,1\n", ["2 controls (NTC and Positivkontrolle)."]),
        ("sep=;\nPool;Anzahl\nP1;1\nP2;2\n", ["Cells are separated by semicolons."]),
        ("Kopf\nP1,1\nP2,2\n", []),
        ("Titel\n\nPlatte 7\n,1,2,3,4,5,6,7,8,9,10,11,12\nA,1,,,,,,,,,,,\nB,2,,,,,,,,,,,\n"
         + "".join(f"{letter},,,,,,,,,,,,\n" for letter in "CDEFGH"), ["not read above it: 'Titel'."]),
    ],
)  # fmt: skip
def test_sheets_with_titles_columns_and_headers_of_their_own_are_read(text, said):
    sheet = read(text)
    assert values(sheet) == [[1.0, 2.0]]
    for note in said:
        assert any(note in one for one in sheet.notes), sheet.notes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pool,count,result\nP1,1,1\nP2,2,2\n", r"columns 2 and 3 both hold counts \('count' and 'result'\)"),
        ("pool,count,more\nP1,1,1\nP2,2,2\n", "columns 2 and 3 both hold counts"),
        ("plate,P1,P2,P3\na,1,2,3\n", "column 4 is called 'P3', but the design has no such pool; .* If it is not"),
        ("plate,P1,P2,p1\na,1,2,x\n", "column 4 is called 'p1', but .* write 'P1'"),
        ("run,plate,P1,P2\nx,a,1,2\n", r"columns 1 \('run'\) and 2 \('plate'\) could both name the rows"),
        ("run,plate,pool,count\nx,a,P1,1\nx,a,P2,2\ny,b,P1,1\ny,b,P2,2\n", "could both name the instances"),
        ("old,3,4\nplate,P1,P2\na,1,2\n", "row 1 holds numbers above the row that names the pools"),
        ("B,4,,,,,,,,,,,\n\n,1,2,3,4,5,6,7,8,9,10,11,12\nA,1,,,,,,,,,,,\nB,2,,,,,,,,,,,\n"
         + "".join(f"{letter},,,,,,,,,,,,\n" for letter in "CDEFGH"), "row 1, column 2 holds '4', beside a plate"),
        ("Titel\nPX,3\nP1,1\nP2,2\n", "row 2, column 1 holds 'PX', which may be a header or a pool"),
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        read(text)


def test_the_check_code_of_a_title_must_be_the_designs():
    text = f"Screening\n{label(DESIGN)}\npool;count\nP1;1\nP2;2\n"
    assert any(note.startswith("The check code is the design's") for note in read(text).notes)
    with pytest.raises(ValueError, match="row 2 shows check code"):
        read(text, design=qgt.Design.from_rows(["110", "111"]))


# --- encodings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-8", "utf-8-sig"])
def test_text_of_windows_is_read_and_said(encoding):
    sheet = read("Prüfung;Größe\nPool;Anzahl\nP1;1\nP2;2\n".encode(encoding))
    assert values(sheet) == [[1.0, 2.0]]
    said = {
        "c": "The text is not UTF-8; it was read as Windows-1252, as in 'Prüfung'.",
        "utf-16": "The text is UTF-16.",
    }
    wanted = said["utf-16"] if "16" in encoding else said["c"] if "utf" not in encoding else None
    assert (wanted in sheet.notes) if wanted else not any("text is" in note for note in sheet.notes)


@pytest.mark.parametrize("encoding", ["cp850", "mac_roman"])
def test_text_that_other_systems_read_otherwise_is_refused_with_each_reading(encoding):
    with pytest.raises(
        ValueError, match=r"row 2 reads .* as Windows text, .* as DOS text and .* as old Mac text"
    ) as error:
        Samples.read("s.csv", data="sample\nMüller\n".encode(encoding))
    assert "'Müller'" in str(error.value)


# --- sizes ------------------------------------------------------------------------------------------------------------


def workbook(sheet):
    """The smallest XLSX file around a sheet's XML."""
    kinds = "http://schemas.openxmlformats.org/"
    main, links = f"{kinds}spreadsheetml/2006/main", f"{kinds}officeDocument/2006/relationships"
    package = f"{kinds}package/2006"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
            '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            'spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType='
            '"application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
        )
        one = '<Relationships xmlns="{}/relationships"><Relationship Id="r1" Type="{}/{}" Target="{}"/></Relationships>'
        archive.writestr("_rels/.rels", one.format(package, links, "officeDocument", "xl/workbook.xml"))
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{links}"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets>'
            "</workbook>",
        )
        archive.writestr("xl/_rels/workbook.xml.rels", one.format(package, links, "worksheet", "worksheets/sheet1.xml"))
        archive.writestr(
            "xl/worksheets/sheet1.xml", f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>'
        )
    return stream.getvalue()


def test_cells_of_a_workbook_are_counted_before_any_is_read(monkeypatch):
    fine = workbook("<row><c><v>1</v></c><c><v>2</v></c></row>")
    assert read_grids("x.xlsx", fine)[0].rows == (("1", "2"),)
    large = workbook(("<row>" + "<c><v>1</v></c>" * 300 + "</row>") * 900)
    monkeypatch.setattr(grids, "_openpyxl", lambda name: lambda *given, **named: pytest.fail("cells were read"))
    with pytest.raises(ValueError, match="has more than 250,000 cells; send fewer, or save the sheet as CSV"):
        read_grids("x.xlsx", large)


def test_what_a_file_says_of_its_size_costs_nothing():
    """A cell in the last column of the last row: without limits, seventeen thousand million cells."""
    with pytest.raises(ValueError, match="has more than 250,000 cells or 100,000 rows; delete those below the table"):
        read_grids("x.xlsx", workbook('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'))
    with pytest.raises(ValueError, match="has 90,000 rows and 16,384 columns, which are more than 2,000,000 cells"):
        read_grids("x.xlsx", workbook('<row r="90000"><c r="XFD90000"><v>1</v></c></row>'))


def test_one_long_row_does_not_lengthen_a_million_others():
    text = "1\n" * 50_000 + "," * 50_000 + "1\n"
    with pytest.raises(ValueError, match="has 50,001 rows and 50,001 columns, which are more than 2,000,000 cells"):
        read_grids("x.csv", text.encode())


# --- numbers of another kind ------------------------------------------------------------------------------------------

COPIES = [1263.0, 0.0, 88412.0, 5051.0, 12.0, 940.0, 2210.0, 0.0, 7300.0, 41000.0, 650.0, 3100.0]
CYCLES = [24.31, 31.02, 18.77, 36.4, 29.95, 22.1, 33.8, 27.64, 35.09, 30.5, 26.33, 19.99]


def words_of(y, noise):
    design = qgt.Design.column_regular(pools=12, items=48, weight=4, generator=torch.Generator().manual_seed(0))
    problem = qgt.Problem(design, qgt.Bernoulli(0.03), noise)
    sheet = decode_sheet(problem, torch.tensor([y], dtype=torch.float64), None, qgt.Certified(), calibrate=None)
    (one,) = sheet.accounts
    assert (str(one.verdict), one.answer) == ("impossible", ())
    return one.words


@pytest.mark.parametrize(("y", "said"), [(COPIES, "copies"), (CYCLES, "cycle thresholds (Ct)")])
@pytest.mark.parametrize("noise", [qgt.Noiseless(), qgt.SparseInteger(0.02, 1), RESULTS])
def test_copies_and_cycle_thresholds_are_recognised_and_name_nobody(y, said, noise):
    words = words_of(y, noise)
    assert f"These numbers look like {said}" in words
    assert "Look at" not in words and " are positive" not in words and "round them" not in words
    if noise is RESULTS:
        assert words.endswith("This plan's assay does not report those: write 1 for positive and 0 for negative.")
    else:
        assert "qgt needs the number of positive samples in each pool" in words and "--assay positive" in words
    assert "These numbers look like" in words_of([float(round(value)) for value in y], noise)


def test_rounded_cycle_thresholds_in_large_pools_name_nobody():
    """Each is a number of samples that its pool has; one wrong count explains them, with most samples positive."""
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=17, items=96, weight=6, generator=g)
    y = torch.randint(20, 29, (1, 17), generator=g).double()
    assert bool((y <= design.pool_sizes).all())
    sheet = decode_sheet(qgt.Problem(design, qgt.Bernoulli(0.03)), y, None, qgt.Certified(), calibrate=None)
    assert str(sheet.accounts[0].verdict) == "impossible"
    assert "positive, of 96" not in sheet.accounts[0].words


@pytest.mark.parametrize(
    "y", [[1.5, 2.0, 0.0] * 4, [1.0, 2.0, 30.0] * 4, [1.0, 0.0, 1.0, 900.0] * 3, [0.0] * 11 + [17.5]]
)
def test_a_few_odd_counts_are_no_copies(y):
    assert "look like" not in words_of(y, qgt.Noiseless())


def test_readings_that_are_copies_are_said_in_the_notes():
    text = "".join(f"P{i + 1},{value}\n" for i, value in enumerate(COPIES))
    design = qgt.Design.column_regular(pools=12, items=48, weight=4, generator=torch.Generator().manual_seed(0))
    assert "look like copies" in read(f"pool,count\n{text}", qgt.Gaussian(0.3), design).notes[-1]
    assert "look like" not in " ".join(read(f"pool,count\n{text}", qgt.Noiseless(), design).notes)  # the words say it


# --- lists of samples -------------------------------------------------------------------------------------------------


def listed(text, encoding="utf-8"):
    return Samples.read("s.csv", data=text.encode(encoding))


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16", "utf-16-le"])
def test_a_list_of_samples_as_a_laboratory_has_it(encoding):
    text = "Screening KW 46\nGerät;7\n\nProben-ID;Geburtsjahr;Platte;Position\nMüller;1971;P 7;A01\nWeiß;2008;P 7;B01\n"
    found = listed(text, encoding)
    assert found == Samples(("Müller", "Weiß"), ("P 7", "P 7"), ("A1", "B1"))
    said = [
        "Row 4 was taken as the header; not read above it: 'Screening KW 46', 'Gerät', '7'.",
        "Columns: 'Proben-ID' was read as sample, 'Platte' was read as plate, 'Position' was read as well.",
        "Not read: column 'Geburtsjahr'.",
    ]
    kinds = {"cp1252": "The text is not UTF-8; it was read as Windows-1252, as in 'Gerät'."}
    kinds |= dict.fromkeys(("utf-16", "utf-16-le"), "The text is UTF-16.")
    wanted = [kinds[encoding]] if encoding in kinds else []
    assert list(found.notes) == [*wanted, "Cells are separated by semicolons.", *said]


def test_a_list_of_our_own_has_no_notes(tmp_path):
    Samples.placed(["sample", "name", "Well"]).write(tmp_path / "s.csv", remark="Design x")
    found = Samples.read(tmp_path / "s.csv")
    assert (found.names, found.notes) == (("sample", "name", "Well"), ())


def test_without_wells_the_order_of_the_file_is_said():
    found = listed("Probe,Alter\nAnn,71\nBob,8\n")
    assert found.wells == ("A1", "B1")
    assert found.notes[-1].startswith("No column names wells: samples fill plates of 96 down the columns")


def test_the_one_sheet_with_samples_is_read():
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Info"
    book.active.append(["made by Ann"])
    for row in (["Liste"], ["Probe", "Position"], ["a", "A1"], ["b", "B1"]):
        (book["Proben"] if "Proben" in book.sheetnames else book.create_sheet("Proben")).append(row)
    stream = io.BytesIO()
    book.save(stream)
    found = Samples.read("s.xlsx", data=stream.getvalue())
    assert found.names == ("a", "b") and found.notes[0] == "Sheet 'Proben' was read, not 'Info'."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Sample\nSample ID,well\na,A1\n", "rows 1 and 2 could both be the header"),
        ("Proben-ID,Barcode\na,1\n", "second column of names: 'Proben-ID' and 'Barcode' could both be meant"),
        (
            "Probe,Pos\nAnn,9\n",
            r"row 2, column 2 holds '9'; write a well.*9 is A2 counted down .* and A9 counted along",
        ),
        ("Probe,Platz\nAnn,A1\nBob,B1\n", "row 1, column 2 holds 'Platz' above wells; call the column 'well'"),
        ("Probe,Alter\nAnn,71\n\nFreigabe: Dr. X,\n", "row 4 holds only 'Freigabe: Dr. X', below an empty row"),
        ("Probe,Alter\nAnn,71,x\n", "row 2 has 3 cells and row 1 has 2"),
        ("Titel\nProbe\n", "lists no samples; give a row for each sample below row 2"),
    ],
)
def test_lists_that_could_be_read_in_two_ways_are_refused(text, said):
    with pytest.raises(ValueError, match=said):
        listed(text)
