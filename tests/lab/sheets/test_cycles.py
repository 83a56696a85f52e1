"""Cycle thresholds as machines export them: read right, or refused in one line with the place and what to do."""

import re
from dataclasses import replace
from math import inf

import pytest
import torch

import qgt
from qgt.files.grids import workbook_bytes
from qgt.files.tables import table_bytes
from qgt.lab.rounds import InstancePools, Round, read_round_reports
from qgt.lab.sheets.counts import read_counts
from qgt.lab.sheets.names import check_code

DESIGN = qgt.Design.from_rows(["110", "011", "101"])
CODE = check_code(DESIGN)
CYCLES = qgt.CycleThreshold(sigma=0.25, intercept=37.0, slope=-3.32, limit=38.0)
AMOUNTS = qgt.Amount(relative=0.1, limit=5.0)

QUANTSTUDIO = """* Block Type = 96-Well 0.2-mL Block
* Chemistry = TAQMAN
* Experiment Name = pools, Monday
* Instrument Type = QuantStudio(TM) 5 System

Well\tWell Position\tOmit\tSample Name\tTarget Name\tTask\tReporter\tC\u0442\tC\u0442 Mean\tC\u0442 SD\tQuantity
1\tA1\tfalse\tP1\tN1\tUNKNOWN\tFAM\t27.31\t27.31\t\t
2\tA2\tfalse\tP2\tN1\tUNKNOWN\tFAM\tUndetermined\t\t\t
3\tA3\tfalse\tP3\tN1\tUNKNOWN\tFAM\t26.80\t26.80\t\t
4\tA4\tfalse\tWater\tN1\tNTC\tFAM\tUndetermined\t\t\t
5\tA5\tfalse\tS1\tN1\tSTANDARD\tFAM\t20.00\t20.00\t\t1000
6\tA6\tfalse\t\t\t\t\t\t\t\t

Analysis Type\tSingleplex
"""
CFX = """,Well,Fluor,Target,Content,Sample,Biological Set Name,Cq,Cq Mean,Cq Std. Dev,Starting Quantity (SQ)
,A01,FAM,N1,Unkn-01,P1,,27.31,27.31,0,NaN
,A02,FAM,N1,Unkn-02,P2,,NaN,0,0,NaN
,A03,FAM,N1,Unkn-03,P3,,26.80,26.8,0,NaN
,A04,FAM,N1,NTC-1,,,NaN,0,0,NaN
,A01,HEX,RP,Unkn-01,P1,,24.1,24.1,0,NaN
,A02,HEX,RP,Unkn-02,P2,,24.3,24.3,0,NaN
,A03,HEX,RP,Unkn-03,P3,,24.9,24.9,0,NaN
,A04,HEX,RP,NTC-1,,,NaN,0,0,NaN
"""
LIGHTCYCLER = """Experiment: Monday  Selected Filter: FAM (465-510)
Include\tColor\tPos\tName\tCp\tConcentration\tStandard\tStatus
True\t255\tA1\tP1\t27,31\t\t0\t
True\t255\tA2\tP2\t40,00\t\t0\t
True\t255\tA3\tP3\t26,80\t\t0\t
False\t255\tA4\tP3\t31,00\t\t0\t
"""
ROTOR_GENE = """No.;Color;Name;Type;Ct;Rep. Ct;Given Conc (copies/reaction)
1;Red;P1;Unknown;27,31;27,31;
2;Blue;P2;Unknown;No Ct;;
3;Blue;P3;Unknown;26,80;26,8;
4;Blue;NTC;NTC;0;;
5;Blue;Std 1;Standard;20,1;20,1;1000
"""


def read(text, noise=CYCLES, **options):
    data = text if isinstance(text, bytes) else text.encode()
    return read_counts("run.csv", DESIGN, noise=noise, data=data, **options)


def values(sheet):
    return [[value if value == value else None for value in row] for row in sheet.y.tolist()]


def refused(text, noise=CYCLES, **options):
    with pytest.raises(ValueError) as caught:
        read(text, noise, **options)
    said = str(caught.value)
    assert "\n" not in said and said.endswith(".")
    return said


def table(*rows, header="Well,Sample,Target,Cq"):
    return "\n".join([header, *rows]) + "\n"


PLAIN = ("A1,P1,N1,27.31", "A2,P2,N1,Undetermined", "A3,P3,N1,26.80")

# --- files of machines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (QUANTSTUDIO, {}),
        (CFX, {"target": "N1", "control": "None"}),
        (CFX, {"control": "rp"}),
        (LIGHTCYCLER, {}),
        (ROTOR_GENE, {}),
    ],
    ids=["QuantStudio", "CFX target", "CFX control", "LightCycler", "Rotor-Gene"],
)
def test_files_of_machines_are_read(text, options):
    for data in (text.encode(), text.replace("\n", "\r\n").encode("utf-16")):
        assert values(read(data, **options)) == [[27.31, inf, 26.8]]


def test_what_was_read_and_left_out_is_said():
    assert read(QUANTSTUDIO).notes == (
        "Cells are separated by tabs.",
        "Row 6 was taken as the header; not read above it: '* Block Type = 96-Well 0.2-mL Block', "
        "'* Chemistry = TAQMAN', '* Experiment Name = pools, Monday', '* Instrument Type = QuantStudio(TM) 5 System'.",
        "Each row is a well: column 8 ('C\u0442') has the cycle thresholds, column 4 ('Sample Name') the pools.",
        "The target is N1.",
        "Not read: 2 controls or standards (Water and STANDARD).",
        "Not read: 1 well without a name.",
        "Not read below the table: 'Analysis Type', 'Singleplex'.",
        "1 cell read as not detected: 1 Undetermined.",
    )
    assert "Target N1 was read; not read: RP." in read(CFX, target="n1", control="none").notes
    assert "Target N1 was read, with the control RP." in read(CFX, control="RP").notes
    assert "The control RP amplified in every well." in read(CFX, control="RP").notes
    notes = read(LIGHTCYCLER).notes
    assert "Numbers have decimal commas." in notes and "1 cell read as not detected: 1 of 40,00 cycles." in notes
    assert "Not read: 1 well that the file marks as omitted (row 6)." in notes
    assert "Not read: 2 controls or standards (NTC and Std 1)." in read(ROTOR_GENE).notes


@pytest.mark.parametrize(
    "header", ["Cq", "Ct", "CT", "C\u0442", "C(t)", "Ct (dRn)", "Cp", "Crossing point", "Cq value"]
)
@pytest.mark.parametrize("name", ["Sample", "Sample Name", "Name", "Pool"])
def test_columns_have_many_names(header, name):
    text = table(*PLAIN, header=f"Well Position,{name},Target Name,{header}")
    assert values(read(text)) == [[27.31, inf, 26.8]]


def test_means_and_deviations_are_not_the_wells_values():
    """The mean of a group of wells beside them, before and after the column of values."""
    rows = [f"1.5,{row},99" for row in PLAIN]
    assert values(read(table(*rows, header="Ct SD,Well,Sample,Target,Ct,Ct Mean"))) == [[27.31, inf, 26.8]]
    said = refused(table(*PLAIN, header="Well,Sample,Target,Cq Mean"))
    assert said == (
        "run.csv: row 1 is the header of a table of wells, but no column is called Ct, Cq or Cp; export the results of "
        "the wells, not their means or settings."
    )


def test_a_workbook_of_a_machine_has_one_sheet_of_results():
    setup = [["Well", "Well Position", "Sample Name", "Task"], [1, "A1", "P1", "UNKNOWN"]]
    curves = [["Well", "Cycle", "Target Name", "Rn"], [1, 1, "N1", 0.3]]
    results = [["Block Type", "96well"], [None], ["Well Position", "Sample Name", "Target Name", "CT", "Ct Mean"]]
    results += [
        ["A1", "P1", "N1", 27.31, 27.31],
        ["A2", "P2", "N1", "Undetermined", None],
        ["A3", "P3", "N1", 26.8, 26.8],
    ]
    data = workbook_bytes({"Sample Setup": setup, "Amplification Data": curves, "Results": results})
    sheet = read(data)
    assert values(sheet) == [[27.31, inf, 26.8]] and sheet.names is None
    assert sheet.notes[0] == "Not read: sheets without values of wells (Sample Setup and Amplification Data)."
    twice = read(workbook_bytes({"Monday": results, "Tuesday": results}))
    assert twice.names == ("Monday", "Tuesday") and values(twice) == [[27.31, inf, 26.8]] * 2


def test_wells_without_names_are_the_pools_down_the_columns():
    sheet = read("Well,Cq,Cq Mean\nA1,27.31,27\nB1,N/A,\nC01,26.8,26\nD1,,\n")
    assert values(sheet) == [[27.31, inf, 26.8]]
    assert "column 1 ('Well') the wells, down the columns: A1 is P1" in sheet.notes[0]
    assert refused("Well,Cq\nA1,27.31\nB1,30\nC1,26.8\nD1,31\n") == (
        "run.csv: row 5, column 2 holds '31', but no pool is in that well; delete the row."
    )


@pytest.mark.parametrize("column", ["Plate", "Run", "Experiment", "Experiment Name"])
def test_plates_by_a_column(column):
    rows = [f"Mon,{row}" for row in PLAIN] + [f"Tue,{row.replace('27.31', 'neg')}" for row in PLAIN]
    sheet = read(table(*rows, header=f"{column},Well,Sample,Target,Cq"))
    assert sheet.names == ("Mon", "Tue") and values(sheet) == [[27.31, inf, 26.8], [inf, inf, 26.8]]


# --- cells ------------------------------------------------------------------------------------------------------------

NOTHING = [
    "Undetermined", "undet.", "UNDETERMINED", "Not detected", "not_detected", "negative", "Neg", "No Ct", "no cq",
    "No Amplification", "N/A", "NaN", "nan", "inf", "0", "0.00", "38", "40", "45.0", "39.2", "nicht nachgewiesen",
]  # fmt: skip


@pytest.mark.parametrize("cell", NOTHING)
def test_what_machines_write_where_nothing_amplified(cell):
    for text in (
        f"plate,P1,P2,P3\nA,27.3,{cell},26.8\n",
        f"pool,count\nP1,27.3\nP2,{cell}\nP3,26.8\n",
        f"pool,Ct\nP1,27.3\nP2,{cell}\nP3,26.8\n",
        f"27.3,{cell},26.8\n",
    ):
        assert values(read(text)) == [[27.3, inf, 26.8]]


def test_how_many_cells_were_read_as_not_detected_is_said():
    design = qgt.Design.from_matrix(torch.eye(16, dtype=torch.uint8))
    cells = ["Undetermined"] * 8 + ["40"] * 4 + ["27.1", "invalid", "", "not detected"]
    text = "pool,Ct\n" + "".join(f"P{i + 1},{cell}\n" for i, cell in enumerate(cells))
    sheet = read_counts("run.csv", design, noise=CYCLES, data=text.encode())
    assert sheet.notes[1:] == (
        "12 cells read as not detected: 8 Undetermined and 4 of 40 cycles.",
        "1 cell read as words: 1 missing (invalid).",
        "2 of 16 cycle thresholds are missing: P14 and P15.",
        "An empty cell is a pool that was not measured: if the machine leaves cells empty where nothing amplified, "
        "write 'not detected' there.",
    )
    late = read("plate,P1,P2,P3\nA,38.5,39.2,26.8\n")
    assert late.notes == ("2 cells read as not detected: 2 at 38 cycles or later.",)


def test_an_assay_without_a_limit_reads_every_cycle_and_asks_about_the_last():
    sheet = read("plate,P1,P2,P3\nA,40,40,26.8\n", qgt.CycleThreshold(sigma=0.25))
    assert values(sheet) == [[40.0, 40.0, 26.8]]
    assert sheet.notes == (
        "2 cells have exactly 40 cycles and are read as such. If the machine writes 40 where nothing amplified, set "
        "limit = 40 in the problem's noise.",
    )
    assert read("plate,P1,P2,P3\nA,39.6,40,26.8\n", qgt.CycleThreshold(sigma=0.25)).notes == ()


@pytest.mark.parametrize("noise", [qgt.Outliers(CYCLES, rate=0.01), qgt.PerPool([CYCLES] * 3)])
def test_noises_around_cycles_report_cycles_too(noise):
    assert values(read("plate,P1,P2,P3\nA,Undetermined,40,26.8\n", noise)) == [[inf, inf, 26.8]]
    assert values(read(QUANTSTUDIO, noise)) == [[27.31, inf, 26.8]]


def test_amounts_are_read_likewise():
    text = table("A1,P1,N1,31,1200.5", "A2,P2,N1,Undetermined,Undetermined", "A3,P3,N1,40,3.5",
                 header="Well,Sample Name,Target Name,CT,Quantity")  # fmt: skip
    sheet = read(text, AMOUNTS)
    assert values(sheet) == [[1200.5, 0.0, 0.0]]
    assert sheet.notes[-1] == "2 cells read as not detected: 1 Undetermined and 1 of 3.5."
    assert values(read("plate,P1,P2,P3\nA,No Ct,0,88412\n", AMOUNTS)) == [[0.0, 0.0, 88412.0]]
    assert values(read("pool,Copies\nP1,100\nP1,180\nP2,0\nP3,7\n", AMOUNTS)) == [[140.0, 0.0, 7.0]]
    assert "which differ by more than a factor of two" in refused("pool,Copies\nP1,30\nP1,80\nP2,9\nP3,7\n", AMOUNTS)
    assert "never below 0" in refused("plate,P1,P2,P3\nA,-3,0,88412\n", AMOUNTS)
    around_zero = qgt.Amount(relative=0.1, absolute=2.0)
    sheet = read("plate,P1,P2,P3\nA,-3,0,88412\n", around_zero)
    assert values(sheet) == [[-3.0, 0.0, 88412.0]] and sheet.notes == ()


def test_cycles_are_odd_only_for_assays_of_counts():
    text = "plate,P1,P2,P3\nA,27.3,31.2,26.8\n"
    assert read(text).notes == ()
    assert any("look like cycle thresholds" in note for note in read(text, qgt.Gaussian(sigma=0.2)).notes)


# --- replicates and controls ------------------------------------------------------------------------------------------


def test_replicates_that_agree_are_averaged():
    sheet = read(table(*PLAIN, "B1,P1,N1,27.91", "B2,P2,N1,No Ct", "B3,P3,N1,"))
    assert values(sheet) == [[pytest.approx(27.61), inf, 26.8]]
    assert "2 pools are means of replicates." in sheet.notes
    assert "Replicates that were not measured are left out of the means of P3." in sheet.notes


def with_control(first="24.0", second="24.1", third="24.2", target="27.31"):
    rows = [row.replace("27.31", target) for row in PLAIN]
    return table(*rows, f"A1,P1,RP,{first}", f"A2,P2,RP,{second}", f"A3,P3,RP,{third}")


def test_a_well_whose_control_failed_is_not_measured():
    """Not detected, where the reaction failed, would be an all-clear by accident."""
    sheet = read(with_control(second="Undetermined"), control="RP")
    assert values(sheet) == [[27.31, None, 26.8]]
    assert "The control RP did not amplify in 1 well, taken as not measured: P2." in sheet.notes
    sheet = read(with_control(first=""), target="N1", control="RP")
    assert values(sheet) == [[None, inf, 26.8]]
    assert (
        "The control RP did not amplify in 1 well, taken as not measured: P1. In 1 of them the target amplified."
        in sheet.notes
    )


def test_a_control_may_have_wells_of_its_own_and_replicates():
    text = with_control(second="40").replace("A1,P1,RP", "B1,P1,RP").replace("A2,P2,RP", "B2,P2,RP")
    assert values(read(text, control="RP")) == [[27.31, None, 26.8]]
    again = with_control(second="40") + "B2,P2,N1,30.0\nB2,P2,RP,24.0\n"
    assert values(read(again, control="RP")) == [[27.31, 30.0, 26.8]]


def test_a_control_without_a_template_that_amplified_is_named():
    notes = read(table(*PLAIN, "H1,NTC,N1,36.5", "H2,PC,N1,22.0")).notes
    said = "Controls without a template amplified: row 5 (36.5, target N1); check for contamination."
    assert said in notes and "Not read: 2 controls or standards (NTC and PC)." in notes


def test_a_positive_control_counts_for_its_own_target():
    rows = (
        *PLAIN,
        "A1,P1,RP,24",
        "A2,P2,RP,24",
        "A3,P3,RP,24",
        "H2,Pos. Control,N1,22.0",
        "H2,Pos. Control,RP,Undetermined",
    )
    assert values(read(table(*rows), control="RP")) == [[27.31, inf, 26.8]]
    assert "holds 'Undetermined' for the positive control 'Pos. Control'" in refused(
        table(*rows), target="RP", control="none"
    )


def test_nan_alone_is_what_a_machine_writes_where_nothing_amplified():
    assert values(read(table(PLAIN[0], "A2,P2,N1,NaN", PLAIN[2]))) == [[27.31, inf, 26.8]]


# --- bad files: one line each -----------------------------------------------------------------------------------------

TWO = table(*PLAIN, "A1,P1,N2,28.0", "A2,P2,N2,30.0", "A3,P3,N2,26.0")
CHANGED = {
    "two targets": (
        TWO, {},
        "run.csv: row 1, column 3: the pools have 2 targets ('N1' and 'N2'); say which one to decode by --target NAME, "
        "or the field 'Target' of the page.",
    ),
    "three targets and a control": (
        TWO + "A1,P1,RP,24\n", {"control": "RP"}, "the pools have 2 targets ('N1' and 'N2'); say which one",
    ),
    "two dyes": (
        table("A1,P1,FAM,27", "A1,P1,HEX,24", "A2,P2,FAM,27", "A3,P3,FAM,27", header="Well,Sample,Fluor,Cq"), {},
        "column 3: the pools have 2 targets ('FAM' and 'HEX')",
    ),
    "a target that is not there": (
        TWO, {"target": "ORF1"},
        "target='ORF1' is not valid: column 3 of run.csv has 'N1' and 'N2'; give one.",
    ),
    "a control that is not there": (TWO, {"target": "N1", "control": "RP"}, "control='RP' is not valid: column 3"),
    "one target as both": (TWO, {"target": "N1", "control": "n1"}, "target='N1' and control='n1' are the same"),
    "a target besides that may be the control": (
        TWO, {"target": "N2"},
        "run.csv: row 1, column 3: besides 'N2' the pools have 'N1'; say which one is the internal control by "
        "--control NAME, or the field 'Internal control' of the page, so that a failed reaction is not read as 'not "
        "detected'. If none is, write --control none.",
    ),
    "NaN beside another word": (
        table(*PLAIN[:2], "A3,P3,N1,NaN"), {},
        "run.csv: row 4, column 4 holds 'NaN', which may mean not detected or not measured; write 'not detected' if "
        "nothing was detected, or leave the cell empty if the pool was not measured.",
    ),
    "NaN beside 0": (
        table(PLAIN[0], "A2,P2,N1,0", "A3,P3,N1,NaN"), {},
        "row 4, column 4 holds 'NaN', which may mean not detected or",
    ),
    "a positive control without a target that failed": (
        table(*PLAIN, "H2,PTC,,Undetermined"), {}, "holds 'Undetermined' for the positive control 'PTC'",
    ),
    "N/A beside another word": (
        table(*PLAIN[:2], "A3,P3,N1,N/A"), {}, "holds 'N/A', which may mean not detected or not measured",
    ),
    "a positive control that failed": (
        table(*PLAIN, "H2,PTC,N1,Undetermined"), {},
        "run.csv: row 5, column 4 holds 'Undetermined' for the positive control 'PTC': the run may have failed, and "
        "'not detected' would then mean nothing; test the pools again, or delete that row to decode the run "
        "nevertheless.",
    ),
    "a target of a file without any": (
        "pool,Ct\nP1,27\nP2,30\nP3,31\n", {"target": "N1"},
        "target='N1' is not valid: run.csv has no column of targets beside its wells; leave it out.",
    ),
    "a target of a plain sheet": (
        "plate,P1,P2,P3\nA,27,30,31\n", {"control": "RP"},
        "control='RP' is not valid: run.csv has no column of targets",
    ),
    "replicates that differ": (
        table(*PLAIN, "B1,P1,N1,29.9"), {},
        "run.csv: row 2, column 4 holds '27.31' and row 5 holds '29.9', which differ by more than 1 cycle, for pool "
        "'P1'; keep the row that is right, or test the pool again and leave its cells empty until then.",
    ),
    "a replicate that did not amplify": (
        table(*PLAIN, "B1,P1,N1,Undetermined", "B2,P2,N1,31"), {},
        "holds '27.31' and row 5 holds 'Undetermined', so that one well amplified and the other did not, for pool "
        "'P1'; keep the row that is right, or test the pool again and leave its cells empty until then. 1 other pool "
        "has such wells.",
    ),
    "unknown pools": (
        table(*PLAIN, "B1,P4,N1,29.9", "B2,P5,N1,29.9"), {},
        "run.csv: row 5, column 2 holds 'P4', but the design has no such pool; use its names, such as 'P1'. Unknown "
        "are also 'P5'. Delete the rows of wells that are not pools.",
    ),
    "a pool in small letters": (
        table("A1,p1,N1,27", *PLAIN[1:]), {},
        "holds 'p1', but the design has no such pool; write 'P1'",
    ),
    "pools that are absent": (
        table(PLAIN[0]), {},
        "run.csv: has no well for pools 'P2' and 'P3'; add a row for each, with an empty value if it was not measured.",
    ),
    "a pool absent from one plate": (
        table(*[f"Mon,{row}" for row in PLAIN], *[f"Tue,{row}" for row in PLAIN[1:]],
              header="Plate,Well,Sample,Target,Cq"),
        {}, "run.csv: has no well of plate 'Tue' for pool 'P1'; add a row",
    ),
    "a negative cycle": (
        table("A1,P1,N1,-1", *PLAIN[1:]), {},
        "run.csv: row 2, column 4 holds '-1'; write the cycle, which is never below 0, or 'not detected' if nothing "
        "was detected.",
    ),
    "copies in the column of cycles": (
        table("A1,P1,N1,27310", *PLAIN[1:]), {},
        "run.csv: row 2, column 4 holds '27310'; write the cycle threshold, which no PCR machine reports above 60.",
    ),
    "a text as a value": (
        table("A1,P1,N1,late", *PLAIN[1:]), {},
        "run.csv: row 2, column 4 holds 'late'; write a cycle such as 27.3, inf where nothing amplified, and nothing "
        "where the pool was not measured.",
    ),
    "positive as a value": (
        table("A1,P1,N1,positive", *PLAIN[1:]), {},
        "holds 'positive', but this assay does not report",
    ),
    "a limit as a value": (
        table("A1,P1,N1,>38", *PLAIN[1:]), {},
        "row 2, column 4 holds '>38', a limit and not a value",
    ),
    "n.d.": (table("A1,P1,N1,n.d.", *PLAIN[1:]), {}, "holds 'n.d.', which may mean not detected or not done;"),
    "NA": (
        table("A1,P1,N1,NA", *PLAIN[1:]), {},
        "row 2, column 4 holds 'NA', which may mean not detected or not measured",
    ),
    "N/A alone": (
        table("A1,P1,N1,N/A", "A2,P2,N1,N/A", "A3,P3,N1,N/A"), {},
        "holds 'N/A', which may mean not detected or",
    ),
    "commas in decimals and between cells": (
        table("A1,P1,N1,27,31", *PLAIN[1:]), {}, "run.csv: row 2 has 5 cells and row 1 has 4; give every row the same",
    ),
    "decimal commas and points": (
        table("A1;P1;N1;27,31", "A2;P2;N1;30.0", "A3;P3;N1;26,8", header="Well;Sample;Target;Cq"), {},
        "run.csv: row 3, column 4 holds '30.0'; write a decimal comma, as in the other cells, or points everywhere.",
    ),
    "a date": (
        table("A1,P1,N1,date 2024-07-27", *PLAIN[1:]), {},
        "row 2, column 4 holds 'date 2024-07-27'; the spreadsheet made",
    ),
    "an empty file": ("", {}, "run.csv: is empty; give one row per line, cells separated by commas."),
    "a header alone": (table(), {}, "run.csv: row 1 is the header of a table without rows; add a row for each well."),
    "controls alone": (
        table("H1,NTC,N1,Undetermined", "H2,NTC,N1,NaN"), {},
        "run.csv: has no well of a pool: its 2 rows are controls (NTC); export the wells of the pools too.",
    ),
    "a pool whose task is a control's": (
        table("A1,P1,NTC,27", "A2,P2,UNKNOWN,27", header="Well,Sample,Task,Cq"), {},
        "run.csv: row 2, column 3 holds 'NTC', but the row is called 'P1', which is a pool; correct the task, or "
        "the name.",
    ),
    "a control that failed everywhere": (
        with_control("NaN", "NaN", "40"), {"control": "RP"},
        "run.csv: the control 'RP' amplified in no well, so the reactions failed; test the plate again, or give "
        "another --control.",
    ),
    "a control that is absent": (
        with_control().replace("A2,P2,RP,24.1\n", ""), {"control": "RP"},
        "run.csv: the control 'RP' has no well for pool 'P2'; add its rows, or leave --control out.",
    ),
    "a plate twice": (
        table(*PLAIN, *PLAIN), {},
        "run.csv: rows 2 and 5 are both for well A1; delete one, or add a column 'Plate' that tells them apart.",
    ),
    "a plate twice by name": (
        table(*[f"Mon,{row}" for row in (*PLAIN, *PLAIN)], header="Plate,Well,Sample,Target,Cq"), {},
        "run.csv: rows 2 and 5 are both for well A1 of plate 'Mon'; delete one",
    ),
    "two tables": (
        table(*PLAIN) + "\n" + table(*PLAIN), {},
        "run.csv: row 6 repeats the header, so the file has several",
    ),
    "a plate without a name": (
        table(f"Mon,{PLAIN[0]}", f",{PLAIN[1]}", f"Mon,{PLAIN[2]}", header="Plate,Well,Sample,Target,Cq"), {},
        "run.csv: row 3, column 1 is empty; name the plate of every row.",
    ),
    "a value in a well without a name": (
        table(*PLAIN, "B1,,N1,29.9"), {},
        "run.csv: row 5, column 4 holds '29.9' in a well without a name; name its pool, or delete the row.",
    ),
    "two columns of values": (
        table(*[f"{row},30" for row in PLAIN], header="Well,Sample,Target,Cq,Ct"), {},
        "run.csv: columns 4 ('Cq') and 5 ('Ct') may both be what the pools report; delete one of them.",
    ),
    "no values": (
        table("A1,P1,N1,", "A2,P2,N1,", "A3,P3,N1,invalid"), {},
        "run.csv: no pool has a value in column 4 ('Cq'); fill it in, with 'not detected' where nothing amplified.",
    ),
    "another design's check code": ("# check code 222222\n" + table(*PLAIN), {}, "another design: give that one."),
}  # fmt: skip


@pytest.mark.parametrize("kind", CHANGED)
def test_bad_files_are_refused_in_one_line(kind):
    text, options, said = CHANGED[kind]
    assert said in refused(text, **options)


def test_the_right_ones_beside_the_bad_files_are_read():
    assert values(read(table(*PLAIN))) == [[27.31, inf, 26.8]]
    assert values(read(TWO, target="N2", control="none")) == [[28.0, 30.0, 26.0]]
    assert values(read(with_control(), control="RP")) == [[27.31, inf, 26.8]]


def test_what_is_simulated_is_read_back():
    problem = qgt.Problem(DESIGN, qgt.Loads(rate=0.3, mean=3.0, sd=1.0), CYCLES)
    y = problem.simulate(20, generator=torch.Generator().manual_seed(0)).y
    assert y.isinf().any() and y.isfinite().any()
    names = [str(i) for i in range(20)]
    data = table_bytes(y.tolist(), row_names=names, column_names=DESIGN.pool_names, corner="instance")
    assert b"not detected" in data and b"inf" not in data
    sheet = read(data)
    assert torch.equal(sheet.y, y) and sheet.notes == ()


# --- names with the design's check code, as on the sheets -------------------------------------------------------------


def with_codes(code, form="{code}-{pool}", only="P1 P2 P3 NTC PTC"):
    rows = [*PLAIN, "H1,NTC,N1,Undetermined", "H2,PTC,N1,25"]
    for pool in only.split():
        rows = [row.replace(f",{pool},", f",{form.format(code=code, pool=pool)},") for row in rows]
    return table(*rows)


@pytest.mark.parametrize("form", ["{code}-{pool}", "{code} {pool}", "{code}_{pool}", "{pool}-{code}", "{pool} {code}"])
def test_names_with_the_check_code_are_read_and_the_code_is_said(form):
    sheet = read(with_codes(CODE, form))
    assert values(sheet) == [[27.31, inf, 26.8]]
    assert f"5 names with the check code of the design: {CODE}." in sheet.notes
    assert "Not read: 2 controls or standards (NTC and PTC)." in sheet.notes
    small = read(with_codes(CODE.lower(), form, only="P2"))
    assert values(small) == [[27.31, inf, 26.8]]
    assert f"1 name with the check code of the design: {CODE}." in small.notes


@pytest.mark.parametrize("form", ["{code}-{pool}", "{pool} {code}"])
@pytest.mark.parametrize("only", ["P1 P2 P3", "P3"])
def test_the_check_code_of_another_design_is_a_wrong_plate(form, only):
    said = refused(with_codes("2B3D4F", form, only))
    assert f"with check code 2B3D4F, but the design has {CODE}; this well belongs to another design: give that" in said


def test_a_pool_that_looks_as_if_it_had_a_code_is_itself():
    design = qgt.Design.from_matrix(DESIGN.matrix, pool_names=["BATCH2-P1", "P1", "P2"])
    text = table("A1,BATCH2-P1,N1,27.31", "A2,P1,N1,30", "A3,P2,N1,31")
    assert read_counts("run.csv", design, noise=CYCLES, data=text.encode()).y.tolist() == [[27.31, 30.0, 31.0]]


# --- follow-up rounds: the same table with the names of the round's pools, and the same refusals ----------------------

PROBLEM = qgt.Problem(DESIGN, qgt.Loads(rate=0.3, mean=3.0, sd=1.0), CYCLES)
ROUND = Round(
    2,
    DESIGN.fingerprint,
    "",
    (
        InstancePools("Mon", (27.0, inf, 27.1), (("", ("I1",)), ("", ("I1", "I3")))),
        InstancePools("Tue", (27.0, inf, 27.1), (("", ("I2",)),)),
    ),
).named()
NAMES = {f"P{place}": name for place, (_, name) in enumerate(ROUND.pool_keys, 1)}
OTHERWISE = {  # of several plates, or of tables that only a first round may have
    "a pool absent from one plate",
    "a plate twice by name",
    "a target of a plain sheet",
    "an empty file",
}


def in_round(text):
    """A table, or words about it, with the names of the round's pools instead of P1, P2 and P3."""
    for pool, name in NAMES.items():
        text = re.sub(rf"\b{pool}\b", name, text)
        text = re.sub(rf"\b{pool.lower()}\b", name.lower(), text)
    return text.replace("the design has no such pool", "the round has no such pool")


def read_later(text, **options):
    found = read_round_reports(ROUND, "run.csv", PROBLEM, data=in_round(text).encode(), **options)
    return [value if value == value else None for value in found.counts.values()], found.notes


@pytest.mark.parametrize("kind", sorted(CHANGED.keys() - OTHERWISE))
def test_bad_files_of_a_round_are_refused_as_those_of_the_first(kind):
    text, options, said = CHANGED[kind]
    with pytest.raises(ValueError) as caught:
        read_later(text, **options)
    assert in_round(said) in str(caught.value)


def test_a_round_is_read_as_the_first_is():
    assert [*ROUND.pool_keys] == [("Mon", NAMES["P1"]), ("Mon", NAMES["P2"]), ("Tue", NAMES["P3"])]
    assert len({*NAMES.values()}) == 3
    assert read_later(table(*PLAIN))[0] == [27.31, inf, 26.8]
    assert read_later(with_codes(CODE))[0] == [27.31, inf, 26.8]
    assert read_later(TWO, target="N2", control="none")[0] == [28.0, 30.0, 26.0]
    counts, notes = read_later(with_control(first="NaN"), control="RP")
    assert counts == [None, inf, 26.8]
    assert any("did not amplify in 1 well, taken as not measured" in note for note in notes)
    plates = table(
        *[f"{plate},{row}" for plate, row in zip("112", PLAIN, strict=True)], header="Plate,Well,Sample,Target,Cq"
    )
    assert read_later(plates.replace("A3", "A1"))[0] == [
        27.31,
        inf,
        26.8,
    ]  # two plates of the machine have a well A1 each


@pytest.mark.parametrize(
    "text, said",
    [
        ("Well,Cq\nA1,27\nB1,28\nC1,29\n", "row 1 names wells but no pools; add a column 'Sample' with the names of"),
        ("pool,result\nP1,27\nP2,28\nP3,29\n", "row 1 is not 'instance,pool,count'"),
        (table("A1,R2-2222-1,N1,27.31", *PLAIN[1:]), "which is a pool of proposal 2222, but the round is proposal"),
        (table("A1,R2-1,N1,27.31", *PLAIN[1:]), "holds 'R2-1', but the round has no such pool; use its names, such as"),
        (table(f"A1,2B3D4F-{NAMES['P1']},N1,27.31", *PLAIN[1:]), "with check code 2B3D4F, but the design has"),
    ],
)
def test_tables_that_are_not_of_the_round_are_refused(text, said):
    with pytest.raises(ValueError) as caught:
        read_later(text)
    assert in_round(said) in str(caught.value)


def test_two_sheets_of_results_are_not_one_round():
    sheet = [row.split(",") for row in in_round(table(*PLAIN)).splitlines()]
    data = workbook_bytes({"Monday": sheet, "Tuesday": sheet})
    with pytest.raises(ValueError, match="2 sheets have values of wells"):
        read_round_reports(ROUND, "run.xlsx", PROBLEM, data=data)


def test_pools_of_a_round_are_not_pools_of_the_first():
    said = refused(in_round(table(*PLAIN)))
    assert "which is a pool of a follow-up round (proposal " in said


def test_a_round_whose_pools_share_names_needs_its_own_table():
    """As rounds of qgt 0.1 do: without a code, and numbered anew for every instance."""
    items = [[pool for _, pool in one.pools] for one in ROUND.instances]
    pools = [tuple((f"R2-{place}", pool) for place, pool in enumerate(own, 1)) for own in items]
    renamed = [replace(one, pools=own) for one, own in zip(ROUND.instances, pools, strict=True)]
    old = replace(ROUND, instances=tuple(renamed))
    data = table("A1,R2-1,N1,27.31", "A2,R2-2,N1,30").encode()
    with pytest.raises(ValueError, match="row 1 is not 'instance,pool,count'"):
        read_round_reports(old, "run.csv", PROBLEM, data=data)
    own = old.counts_file([27.0, inf, None])
    assert list(read_round_reports(old, "counts.csv", PROBLEM, data=own).counts.values())[:2] == [27.0, inf]


def test_a_proposals_code_stands_for_its_pools_and_what_they_follow():
    (first, second) = ROUND.instances
    others = [
        replace(ROUND, number=3),
        replace(ROUND, before="ab"),
        replace(ROUND, design="ab"),
        replace(ROUND, instances=(replace(first, counts=(27.0, inf, None)), second)),
        replace(ROUND, instances=(second, first)),
        replace(ROUND, instances=(first,)),
        replace(ROUND, instances=(replace(first, pools=(("", ("I2",)), *first.pools[1:])), second)),
    ]
    assert len({ROUND.code, *(one.code for one in others)}) == len(others) + 1
    assert not {*NAMES.values()} & {name for one in others for _, name in one.named().pool_keys}
    assert Round.from_plain(ROUND.plain).code == ROUND.code == ROUND.named().code
