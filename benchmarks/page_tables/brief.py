"""The few rows of a long table that its topic's page shows; the whole table is on a page of docs/results.

A row is named by the text of its first cells, as the table shows them. A name without a row is an error, so that a page
does not lose the row that makes its point when results are measured again.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

Make = Callable[[Path], str]

ROWS = {
    "any_design": (
        "N = 100, M = 15",
        "N = 100, M = 25",
        "triples, 33 pools of 100 items, rate 0.03",
        "households of 4, M = 25",
        "N = 500, M = 115, weight 8",
    ),
    "any_design_limit": (
        "N = 100, M = 15",
        "N = 100, M = 25",
        "triples, 33 pools of 100 items, rate 0.03",
        "households of 4, M = 25",
        "N = 500, M = 115, weight 8",
    ),
    "any_design_speed": (
        "N = 100, M = 25 | two cores | one pass",
        "N = 100, M = 25 | two cores | 24 tries",
        "N = 100, M = 25 | H200 | one pass",
        "N = 100, M = 25 | H200 | 24 tries",
    ),
    "busy": ("1,000 | 0", "1,000 | 1", "1,000 | 2"),
    "calibration": (
        "25 dense pools | certified",
        "25 dense pools | certified, 0.05 s",
        "25 dense pools | AMP",
        "25 dense pools | GAMP",
        "25 dense pools | network",
    ),
    "calls": (
        "paper, 25 pools",
        "96 in 17 pools, 2 %",
        "households of 4, 96 in 16 pools",
        "positive or negative, 96 in 30 pools",
        "paper, 25 pools, GAMP",
    ),
    "calls_limits": (
        "paper, 14 pools, limit 0.05 s",
        "paper, 16 pools, limit 0.05 s",
        "paper, 18 pools, limit 0.05 s",
    ),
    "categories": (
        "2 categories | 25 | 10 %",
        "3 categories | 25 | 10 %",
        "4 categories | 25 | 10 %",
        "0, 1, 2 copies | 25 | 10 %",
    ),
    "categories_networks": (
        "2 categories | 25 | 10 %",
        "3 categories | 25 | 10 %",
        "4 categories | 25 | 10 %",
        "0, 1, 2 copies | 25 | 10 %",
    ),
    "classical": (
        "N = 100, 5 % | 60",
        "N = 500, 2 % | 120",
        "N = 1,000, 1 % | 120",
        "N = 100, 2 %, 5 % and 2 % wrong | 40",
    ),
    "codes": (
        "1,048,576 | 100 | 1",
        "1,048,576 | 1,000 | 1",
        "1,048,576 | 10,000 | 1",
        "1,048,576 | 10,000 | 2",
    ),
    "decoders": ("20 | 0.1", "25 | 0.1", "30 | 0.1", "35 | 0.1", "40 | 0.1"),
    "false_proofs": ("all of these",),
    "first_plate_promises": (
        "17 pools, 96 samples",
        "17 pools, 96 samples, a tenth missing",
        "25 dense pools",
        "20 dense pools",
    ),
    "follow_up": (
        "6 % | 0.1 | one pool a round",
        "6 % | 0.1 | follow-up",
        "6 % | 0.1 | one follow-up",
        "6 % | 0.1 | non-adaptive",
        "6 % | 0.1 | dorfman",
    ),
    "follow_up_stopping": (
        "follow-up | 0.997 to 0.998",
        "follow-up | 0.9995 to 0.9999",
        "one follow-up | below 0.9",
        "one follow-up | 0.9 to 0.99",
        "one follow-up | 0.9995 to 0.9999",
    ),
    "forgery": ("adversary", "all of these", "honest"),
    "growth": (
        "200 | 60 | 2 cores | 1.0 | certified",
        "200 | 60 | 2 cores | 1.0 | HiGHS",
        "800 | 240 | 2 cores | 1.0 | certified",
        "800 | 240 | 2 cores | 1.0 | HiGHS",
        "800 | 240 | H200",
    ),
    "load_rounds": ("all",),
    "loads": (
        "simple | 45 x 105 | 5 | 0.1",
        "simple | 45 x 105 | 10 | 0.1",
        "real | 45 x 105 | 5 | 0.25",
        "real | 45 x 105 | 8 | 0.25",
        "real | 45 x 105 | 10 | 0.25",
    ),
    "loads_misfit": (
        "as the model says",
        "error 0.5 cycles, not 0.25",
        "5 % of pools fail",
        "6 % positive, not 2 %",
        "two pools swapped on every plate",
    ),
    "many_items": (
        "1,000 | certified",
        "10,000 | certified",
        "20,000 | certified",
        "20,000 | exact",
        "20,000 | linear program",
    ),
    "map": (
        "the paper's: N = 100, M = 30, 6 %, D = 1",
        "N = 1,000, weight 8, M = 300",
        "positive or negative, N = 100, M = 45",
        "households of 4, M = 20",
        "saturating at 3, M = 35",
    ),
    "misfit_lab": (
        "correct use",
        "two pools' counts swapped",
        "one count + 2, in one plate of the file",
        "two samples swapped",
        "true rate 5 times larger",
    ),
    "models": (
        "plain, M = 30",
        "a tenth of 33 counts missing",
        "Gaussian 0.27, M = 30",
        "a rate for each item, M = 30",
        "households of 4, M = 20",
    ),
    "networks_rounds": (
        "M25 | NVIDIA H200 | 1",
        "M25 | NVIDIA H200 | 4",
        "M25 | NVIDIA H200 | 20",
        "M25 | NVIDIA H200 | 200",
    ),
    "plan_promise": ("135", "340", "46 | 0.6 to 1.8", "49", "65"),
    "prevalence": ("25 | 3 %", "25 | 6 %", "25 | 10 %"),
    "paper_time": ("all",),
    "scale": (
        "belief | 1,000,000 | 250,000 | cpu, threads: 1",
        "belief | 1,000,000 | 250,000 | NVIDIA H200, threads: 2",
        "gamp | 100,000",
        "certified | 1,000",
        "certified | 10,000",
    ),
    "when_networks_win": (
        "households | 16",
        "households | 20",
        "independent | 25",
        "outbreak | 12",
        "outbreak | 16",
    ),
}


def brief_tables(tables: Mapping[str, Make]) -> dict[str, Make]:
    """The shortened tables, each called as its whole table and `_brief`."""
    return {f"{name}_brief": partial(brief, tables[name], rows) for name, rows in ROWS.items()}


def brief(make: Make, rows: tuple[str, ...], root: Path) -> str:
    """The header of a table and the rows that begin with these cells, in the order of the table.

    Example:
        >>> print(brief(lambda root: "| a | b |\\n| --- | --- |\\n| 1 | 2 |\\n| 10 | 3 |", ("10",), Path()))
        | a | b |
        | --- | --- |
        | 10 | 3 |
    """
    header, line, *body = make(root).splitlines()
    for row in rows:
        if body and not any(one.startswith(f"| {row} |") for one in body):
            raise ValueError(f"the row {row!r} is not in the table: name another row in page_tables/brief.py.")
    return "\n".join([header, line, *(one for one in body if one.startswith(tuple(f"| {row} |" for row in rows)))])
