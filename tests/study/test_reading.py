"""Reading: CSV, Markdown and figures are functions of the counts."""

import csv
import io
from dataclasses import replace

import pytest
from studies import small

from qgt.pictures.figures import curves_figure
from qgt.study import Study, markdown, run_study, study_results, write_csv
from qgt.trust.metrics import METRICS

DECODERS = {"exact": {"kind": "exact", "limit": True}, "AMP": {"kind": "amp"}}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    db = tmp_path_factory.mktemp("reading") / "study.db"
    study = Study.from_plain(small(decoders=DECODERS, grid={"design.pools": [6, 9], "noise.rate": [0.0, 0.2]}))
    run_study(study, db)
    return study_results(study, db)


def test_csv_has_a_row_for_each_result(found, tmp_path):
    write_csv(found, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 8
    assert list(rows[0])[:5] == ["design.pools", "noise.rate", "decoder", "designs", "instances"]
    for row, one in zip(rows, found, strict=True):
        assert (row["decoder"], row["designs"], row["instances"]) == (one.decoder, "2", "120")
        for metric in METRICS:
            assert float(row[f"{metric}_low"]) <= float(row[metric]) <= float(row[f"{metric}_high"])
            assert float(row[metric]) == pytest.approx(one.score.mean(metric), abs=1e-6)
    assert [row["proved"] for row in rows[:2]] == ["1", "0"]


def test_results_that_are_not_there_yet_are_empty_cells(tmp_path):
    study = Study.from_plain(small(decoders=DECODERS))
    run_study(Study.from_plain(small(decoders=DECODERS, grid={"design.pools": [6]})), tmp_path / "study.db")
    found = study_results(study, tmp_path / "study.db")
    assert [one.finished for one in found] == [True, True, False, False]
    write_csv(found, tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text().splitlines()[-1] == "9,AMP,2,0" + "," * 17
    assert markdown(found).splitlines()[-1] == "| 9 |  |  |"
    assert len(curves_figure(found).axes[0].lines) == 2


def test_markdown_has_a_row_for_each_point(found):
    lines = markdown(found).splitlines()
    assert lines[:2] == ["| design.pools | noise.rate | exact | AMP |", "| --- | --- | --- | --- |"]
    assert len(lines) == 6
    low, high = found[1].score.interval()
    assert lines[2].endswith(f"| {found[1].score.success_rate:.3f} [{low:.3f}, {high:.3f}] |")


def test_a_figure_has_a_panel_for_each_value_of_the_second_key(found):
    figure = curves_figure(found)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["noise rate = 0.0", "noise rate = 0.2"]
    for ax, rate in zip(figure.axes, (0.0, 0.2), strict=True):
        for line, name in zip(ax.lines, DECODERS, strict=True):
            here = [one for one in found if one.decoder == name and one.point["noise.rate"] == rate]
            assert list(line.get_xdata()) == [6, 9]
            assert list(line.get_ydata()) == [one.score.success_rate for one in here]
        assert ax.get_xlabel() == "pools"
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {"exact (limit)", "AMP"}


@pytest.mark.parametrize(("panels", "rows"), [(5, 1), (10, 2)])
def test_all_metrics_are_small_multiples(found, panels, rows):
    shown = found if rows == 2 else [one for one in found if one.point["noise.rate"] == 0.0]
    figure = curves_figure(shown, METRICS)
    drawn = [ax for ax in figure.axes if ax.lines]
    assert len(drawn) == panels
    assert [ax.get_ylabel() for ax in drawn[:2]] == ["success rate", "F1"]
    figure.savefig(io.BytesIO(), format="png")


def test_a_limit_that_is_not_proved_says_so(found):
    one = replace(found[0], statuses={"PROVED": 60, "TIME_LIMIT": 60})
    legend = curves_figure([one]).legends[0]
    assert legend.get_texts()[0].get_text() == "exact (limit, 50.00 % proved)"


def test_nothing_is_not_drawn(found, tmp_path):
    for shown in ([], [one for one in found if not one.score.instances]):
        with pytest.raises(ValueError, match="nothing to draw"):
            curves_figure(shown)
    study = Study.from_plain(small(decoders={"AMP": {"kind": "amp"}}, grid={}))
    run_study(study, tmp_path / "study.db")
    with pytest.raises(ValueError, match="whose first key"):
        curves_figure(study_results(study, tmp_path / "study.db"))
