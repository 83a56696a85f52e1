"""Pages from templates: Jinja with autoescape on, so whatever people typed is text on the page and nothing else."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from qgt.version import __version__
from qgt.web.house import House


@dataclass(frozen=True)
class Trouble:
    """What is wrong with what was sent, shown above the form, which keeps what was typed."""

    words: str
    field: str = ""


def show(request: Request, template: str, facts: Mapping[str, object], status: int = 200) -> HTMLResponse:
    """A page made from a template."""
    house: House = request.app.state.house
    shared = {"word": house.secret.form, "qgt_version": __version__, "path": request.url.path}
    return HTMLResponse(_environment().get_template(template).render({**shared, **facts}), status)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("qgt.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"text": _text, "when": _when, "many": _many}
    return environment


def _text(text: str) -> Markup:
    """Running text, escaped; a percent sign begins no line."""
    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _when(moment: float) -> str:
    """A moment as people write it, in the server's own time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _many(number: int, noun: str) -> str:
    """A number with its noun: 1 plate, 2 plates."""
    return f"{number:,}\N{NO-BREAK SPACE}{noun}{'' if number == 1 else 's'}"
