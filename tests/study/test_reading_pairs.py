"""Pairs: decoders of a study on the instances that both decoded."""

import json
from dataclasses import replace

import pytest
from studies import small

import qgt
from qgt.study import Study, StudyCounts, paired_with_limit, run_study, study_results
from qgt.study.reading import all_pairs, compare_decoders
from qgt.trust.metrics import METRICS

DECODERS = {
    "amp": {"kind": "amp", "label": "AMP, scanning K"},
    "greedy": {"kind": "maximum_neighborhood"},
    "best": {"kind": "exhaustive", "limit": True, "instances": 40, "batch": 10},
}


@pytest.fixture(scope="module")
def study():
    return Study.from_plain(small(decoders=DECODERS))


@pytest.fixture(scope="module")
def db(study, tmp_path_factory):
    db = tmp_path_factory.mktemp("pairs") / "study.db"
    run_study(study, db)
    return db


def test_pairs_equal_a_decoding_by_hand(study, db):
    found = study_results(study, db)
    first, second = compare_decoders(found, "amp", "greedy"), compare_decoders(found, "greedy", "amp")
    assert [one.point["design.pools"] for one in first] == [6, 9]
    total = None
    for task in study.tasks[0 : 2 * len(DECODERS) : len(DECODERS)]:  # AMP on both designs of the first point
        problem = task.problem()
        for batch in range(3):
            x, y = task.draw(problem, batch)
            each = [qgt.outcomes(x, decoder.bind(problem)(y).x) for decoder in (qgt.AMP(), qgt.MaximumNeighborhood())]
            one = qgt.paired(*each)
            total = one if total is None else total + one
    assert replace(first[0].paired, sums={}) == replace(total, sums={})
    for metric in METRICS:
        assert first[0].paired.difference(metric) == pytest.approx(total.difference(metric), rel=1e-9, abs=1e-12)
    assert (first[0].paired.first, first[0].paired.second) == (second[0].paired.second, second[0].paired.first)
    assert first[0].paired.instances == 120


def test_a_decoder_with_fewer_instances_is_compared_on_those(study, db):
    found = study_results(study, db)
    for one in found:
        both = paired_with_limit(one, found)
        if one.limit:
            assert both is None
            continue
        assert both is not None and both.instances == 80
        limit = next(other for other in found if other.limit and other.point == one.point)
        assert both.both + both.second == limit.score.successes
        assert both.difference().mean <= 0.1


def test_only_decoders_of_the_study_are_compared(study, db):
    with pytest.raises(ValueError, match="second='other' is not a decoder here: give one of amp, best, greedy"):
        compare_decoders(study_results(study, db), "amp", "other")


def test_other_instances_are_no_pair(study, db, tmp_path):
    other = Study.from_plain(small(decoders=DECODERS, batch=30, instances=60))  # other blocks, so other instances
    with pytest.raises(ValueError, match="batch=10"):
        Study.from_plain(small(decoders=DECODERS, batch=25))
    run_study(other, tmp_path / "other.db")
    mixed = [study_results(study, db)[0], study_results(other, tmp_path / "other.db")[1]]
    assert compare_decoders(mixed, "amp", "greedy") == []


def test_counts_are_saved_and_come_back(study, db, tmp_path):
    counts = StudyCounts.of(study, db)
    counts.save(tmp_path / "counts.json")
    back = StudyCounts.load(tmp_path / "counts.json")
    assert list(back.results) == counts.results and list(back.pairs) == counts.pairs
    assert back.measured_on.devices == tuple(counts.measured_on.devices)
    assert back.measured_on.design_seeds == tuple(study.designs)
    assert all(one.streams for one in counts.results) and not any(one.streams for one in back.results)
    assert len(counts.pairs) == 3 * 2 and counts.pairs == all_pairs(study_results(study, db))
    assert set(json.loads((tmp_path / "counts.json").read_text())) == {"measured_on", "results", "pairs"}
    assert counts.results[0].label == "AMP, scanning K"
    (tmp_path / "counts.json").write_text("[]")
    with pytest.raises(ValueError, match=r"counts\.json: does not hold a study's counts"):
        StudyCounts.load(tmp_path / "counts.json")
    with pytest.raises(ValueError, match=r"absent\.json: cannot be read"):
        StudyCounts.load(tmp_path / "absent.json")
