"""Forms: what a browser sends, read with limits and only from our own pages."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import UploadFile

from qgt.files.tables import read_amount, read_number
from qgt.version import __version__
from qgt.web.middleware import same
from qgt.web.state import AppState, Here

MOST_FIELDS = 20_000
WORD = "word"  # the hidden field that every form of ours has


@dataclass(frozen=True)
class Form:
    """The fields of a form as texts, and at most one file."""

    fields: dict[str, str]
    upload: bytes | None = None  # the client's name for it is not kept

    def text(self, name: str, *, most: int = 200) -> str:
        """A field, without blanks at its ends; empty where it is missing."""
        found = self.fields.get(name, "").strip()
        if len(found) > most:
            raise ValueError(f"{name} has {len(found):,} characters: write {most:,} at most.")
        return found

    def line(self, name: str, *, most: int = 100) -> str:
        """A field that people will read in a list: one line, in characters that print."""
        found = self.text(name, most=most)
        if not found.isprintable():
            raise ValueError(f"{name}={found!r} holds characters that do not print: write plain text.")
        return found

    def whole(self, name: str, *, least: int, most: int) -> int:
        """A field that holds a whole number."""
        value = self.number(name, least=least, most=most)
        if value != int(value):
            raise ValueError(f"{name}={self.text(name)} is not valid: write a whole number.")
        return int(value)

    def number(self, name: str, *, least: float | int, most: float | int) -> float:
        """A field that holds a number; a decimal comma is one too."""
        return _between(name, self.text(name), read_amount(name, self.text(name)), least, most)

    def percent(self, name: str, *, least: float | int, most: float | int) -> float:
        """A share that is asked for in per cent, as a number from 0 to 1: `5` and `5 %` are both 0.05."""
        return _between(name, self.text(name), read_number(name, self.text(name)).value, least, most) / 100


def _between(name: str, text: str, value: float, least: float | int, most: float | int) -> float:
    if not least <= value <= most:
        raise ValueError(f"{name}={text} is not valid: write a number from {least:g} to {most:g}.")
    return value


async def read_form(request: Request, app_state: Here) -> Form:
    """The form of a request; one that our own pages did not make is refused."""
    size = app_state.settings.largest_body
    data = await request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=size)
    fields, upload = {}, None
    for name, value in data.multi_items():
        if isinstance(value, UploadFile):
            upload = await value.read() or upload
        else:
            fields[name] = value
    await data.close()
    if not same(fields.pop(WORD, ""), app_state.secret.form):
        raise HTTPException(403, "This form is not from this page. Go back, load it again, and send it once more.")
    return Form(fields, upload)


Sent = Annotated[Form, Depends(read_form)]


# Pages from templates: Jinja with autoescape on, so whatever people typed is text on the page and nothing else.


@dataclass(frozen=True)
class Trouble:
    """What is wrong with what was sent, shown above the form, which keeps what was typed."""

    words: str
    field: str = ""


def show(request: Request, template: str, facts: Mapping[str, object], status: int = 200) -> HTMLResponse:
    """A page made from a template."""
    app_state: AppState = request.app.state.shared
    shared = {"word": app_state.secret.form, "qgt_version": __version__, "path": request.url.path}
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
    environment.filters |= {"text": _text, "code": _code, "when": _when, "many": _many}
    return environment


def _text(text: str) -> Markup:
    """Running text, escaped; a percent sign begins no line."""
    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _code(text: str) -> Markup:
    """Running text whose words in backticks are code."""
    plain, *others = str(_text(text)).split("`")
    return Markup(plain + "".join(f"<code>{one}</code>" if n % 2 == 0 else one for n, one in enumerate(others)))


def _when(moment: float) -> str:
    """A moment as people write it, in the server's own time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _many(number: int, noun: str) -> str:
    """A number with its noun: 1 plate, 2 plates."""
    return f"{number:,}\N{NO-BREAK SPACE}{noun}{'' if number == 1 else 's'}"
