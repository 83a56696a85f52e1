"""The first table of each page of docs/results: the command, the machine, the seed and the date of each part.

The machine, the seed and the date are those that the results themselves contain.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from links import slug
from page_tables.cells import read
from qgt.files.documents import markdown_table

NOT_STORED = "not stored"


@dataclass(frozen=True)
class Source:
    """Where the tables below one heading come from."""

    heading: str
    command: str
    results: str  # the file in results/, without its ending
    # The keys that lead to the machine: "*" is each row of a list, and "*win" each row of the part "win".
    where: tuple[tuple[str, ...], ...] = (("measured_on",),)


WHOLE: tuple[tuple[str, ...], ...] = ((),)  # the file itself has the machine
OF_ROWS: tuple[tuple[str, ...], ...] = (("*",),)
BLANK: tuple[tuple[str, ...], ...] = (("measured on",),)


def _certified(*parts: str) -> tuple[tuple[str, ...], ...]:
    return tuple((f"{part}, measured on",) for part in parts)


PAGES: dict[str, tuple[Source, ...]] = {
    "exact": (
        Source("Against another solver", "certified.py agreement", "certified", _certified("agreement")),
        Source("Where the time goes", "certified.py speed", "certified", _certified("speed", "speed on cuda")),
        Source("Recorded kernels", "certified.py recordings", "certified", _certified("recordings on cuda")),
        Source("Other models", "models.py", "models", (("measured on", "cpu"), ("measured on", "cuda"))),
        Source("Larger problems", "certified.py growth", "certified", _certified("growth", "growth on cuda")),
        Source("Before and now", "models.py --before", "models_before", BLANK),
        Source("Many items in small pools", "many_items.py", "many_items", (("rows measured on",),)),
        Source("Many items in many pools", "many_items.py --hard", "many_items", (("hard measured on",),)),
        Source("A map of models", "map.py", "map", BLANK),
    ),
    "decoders": (
        Source("Success rates", "compare.toml", "decoders"),
        Source("Pairs of decoders", "compare.toml", "decoders"),
        Source("Known and unknown prevalence", "prevalence.py", "prevalence"),
        Source("Positive or negative pools", "classical.py", "classical", BLANK),
    ),
    "categories": (
        Source("Every decoder", "categories.py success", "categories", WHOLE),
        Source("Networks", "categories.py networks", "categories", (("networks", "*", "measured_on"),)),
        Source("Against trying every answer", "categories.py brute", "categories", WHOLE),
        Source("Message passing", "pooled_amp.py measure", "pooled_amp", WHOLE),
    ),
    "loads": (
        Source("Every decoder", "loads.py", "loads", WHOLE),
        Source("Targets", "loads.py speed", "loads_speed", WHOLE),
        Source("Targets", "loads.py speed --device cpu", "loads_speed_cpu", WHOLE),
        Source("Confidence without calibration", "load_confidence.py", "load_confidence", WHOLE),
        Source("Certain after rounds", "load_tests.py rounds", "load_rounds"),
        Source("Where the model is wrong", "loads.py misfit", "loads_misfit", WHOLE),
    ),
    "any_design": (
        Source("Designs that training never saw", "any_design.py measure", "any_design"),
        Source("Beside the limit", "any_design.py limits", "any_design", ()),
        Source("Speed", "any_design.py measure", "any_design", (("measured_on",), ("speeds", "*"))),
    ),
    "networks": (
        Source("Three priors", "when_networks_win.py networks", "networks", (("rows", "*win", "measured_on"),)),
        Source("Rounds", "networks.py rounds", "networks", (("rows", "*rounds", "measured_on"),)),
    ),
    "follow_up": (
        Source("Confidence when testing stopped", "follow_up.py goals", "follow_up"),
        Source("Tests of every policy", "follow_up.py table", "follow_up"),
    ),
    "trust": (
        Source("Calls", "calls.py", "calls", WHOLE),
        Source("Calls with short time limits", "calls.py --limits", "calls_limits", WHOLE),
        Source("First sheets", "first_plate.py --promises", "first_plate", (("promises", "about"),)),
        Source("Promises of plans", "plan_promise.py", "plan_promise"),
        Source("Confidence", "calibration.py", "calibration"),
        Source("Files with something wrong in them", "misfit.py", "misfit"),
        Source("Forged certificates", "forgery.py", "forgery"),
        Source("False proofs", "false_proofs.py", "false_proofs"),
    ),
    "speed": (
        Source("Large problems", "scale.py", "scale", OF_ROWS),
        Source("Busy neighbours", "busy.py", "busy", (("about",),)),
        Source("The paper's experiments", "", "paper/counts"),
    ),
    "scale": (
        Source("Solved instances", "thresholds.py", "thresholds", OF_ROWS),
        Source("Orders of messages", "evolution.py schedules", "evolution"),
        Source("Sparse-graph codes", "codes.py", "codes", OF_ROWS),
    ),
}


def measured_table(page: str, root: Path) -> str:
    """By which command, where, with which seed and when the parts of a page were measured."""
    lines = []
    for source in PAGES[page]:
        data = read(root, source.results)
        places = [place for keys in source.where for place in _at(data, keys)]
        link = f"[{source.heading}](#{slug(source.heading)})"
        written = f"`{_command(source)}`, `results/{source.results}.json`"
        cells = [_joined(_machine(place) for place in places), _seed(data, places), _date(places)]
        lines.append([link, written, *cells])
    return markdown_table(["what", "command, and results", "machine", "seed", "date"], lines)


def _at(data: Any, keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """What the keys lead to; nothing where there is none."""
    if not keys:
        if isinstance(data, dict):
            yield data
    elif keys[0].startswith("*"):
        for row in data if isinstance(data, list) else ():
            if keys[0] == "*" or row["part"] == keys[0][1:]:
                yield from _at(row, keys[1:])
    elif isinstance(data, dict) and keys[0] in data:
        yield from _at(data[keys[0]], keys[1:])


def _command(source: Source) -> str:
    if not source.command:
        return "qgt reproduce -o out/paper"
    if source.command.endswith(".toml"):
        return f"qgt bench benchmarks/{source.command} -o out/compare.db"
    return f"python benchmarks/{source.command}"


def _machine(place: dict[str, Any]) -> str:
    """A machine in words; nothing for "cuda", which does not say which GPU."""
    devices = place.get("devices") or [place.get("device", "cuda")]
    if devices == ["cuda"]:
        return ""
    (number,) = threads if isinstance(threads := place["threads"], list) else (threads,)
    named = " and ".join("CPU" if one == "cpu" else one for one in devices)
    return f"{named}, {number} thread{'s' * (number != 1)}"


def _seed(data: Any, places: list[dict[str, Any]]) -> str:
    """The seed as it is stored: of the whole file, or of the designs."""
    for place in (data, *places):
        for key, words in (("seed", ""), ("design_seeds", "designs ")):
            found = place.get(key) if isinstance(place, dict) else None
            if found is not None:
                return words + _numbers(found if isinstance(found, list) else [found])
    return "in the script"


def _numbers(found: list[int]) -> str:
    """Some numbers, in short where they follow each other.

    Example:
        >>> _numbers([0, 2]), _numbers([0, 1, 2, 3])
        ('0, 2', '0 to 3')
    """
    in_row = len(found) > 2 and found == list(range(found[0], found[-1] + 1))
    return f"{found[0]} to {found[-1]}" if in_row else ", ".join(map(str, found))


def _date(places: list[dict[str, Any]]) -> str:
    return _joined(str(place.get("date", "")) for place in places)


def _joined(words: Iterator[str]) -> str:
    return "; ".join(dict.fromkeys(word for word in words if word)) or NOT_STORED


TABLES = {f"measured_{page}": partial(measured_table, page) for page in PAGES}
