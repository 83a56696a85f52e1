"""Planning: a form of what people know, candidates to choose from, and a run made of the one that was chosen."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from qgt.files.tables import read_number
from qgt.lab.plan.classical import ClassicalScheme
from qgt.lab.plan.folder import (
    LOAD_COLUMN_MEANING,
    PlanFolder,
    load_cells,
    load_columns,
    plan_files,
    plan_words,
    read_plan,
)
from qgt.lab.plan.planning import Candidate, Plan, plan
from qgt.lab.plan.question import (
    Question,
    expected_positives,
    parse_assay,
    parse_categories,
    parse_measured,
    positives_of,
    two_stages,
)
from qgt.lab.sheets.samples import Samples
from qgt.model.categories import Categories, Copies
from qgt.model.loads import Loads
from qgt.model.noise import Noise
from qgt.pictures import pages
from qgt.web.jobs import Full, Job
from qgt.web.state import AppState, Draft, Form, Here, Sent, Trouble, show

router = APIRouter()
PLAN_SEED = 0
MOST_READS = 1_000_000  # of a pool
START = {
    "name": "",
    "samples": "96",
    "names": "",
    "has": "status",
    "fewest": "1",
    "most": "4",
    "categories": "variant A=3%, variant B=1%",
    "allele": "2",
    "assay": "count",
    "depth": "2000",
    "wrong_reads": "0.1",
    "off": "5",
    "missed": "2",
    "false": "1",
    "sigma": "0.3",
    "ct_sigma": "0.25",
    "limit": "38",
    "dilution": "1",
    "load_mean": "27.3",
    "load_sd": "6.2",
    "certainty": "95",
    "volume": "10",
    "attack_rate": "",
    "background": "",
    "stages": "usual",
    "most_pools": "",
    "largest_pool": "",
    "most_transfers": "",
}
ASSAY_FIELDS = {
    "count": "the exact number of positives in the pool",
    "off": "the number of positives, now and then one too many or too few",
    "positive": "only whether the pool is positive or negative",
    "reading": "a measured value around the number of positives",
    "ct": "a cycle threshold (quantitative PCR)",
    "reads": "how many of its reads show the allele (sequencing)",
}
HAS = {
    "status": "A sample is positive or negative",
    "categories": "A sample is negative, or one of several variants that the assay counts one by one",
    "copies": "A sample has 0, 1 or 2 copies of an allele",
}
STAGES = {
    "usual": "as is usual for the assay: yes where pools are only positive or negative, and for cycle thresholds; "
    "otherwise no",
    "two": "yes",
    "one": "no",
}
# What a form calls the fields of a question, for errors that name them.
FORM_LABELS = {
    "samples": "Number of samples",
    "fewest": "At least",
    "most": "At most",
    "categories": "Variants, and how many of the samples are each",
    "allele": "Frequency of the allele (%)",
    "depth": "Reads of each pool",
    "wrong_reads": "Reads that are wrong (%)",
    "off": "Counts that may be off (%)",
    "missed": "Positive pools that are missed (%)",
    "false": "Negative pools that look positive (%)",
    "sigma": "Standard deviation",
    "ct_sigma": "Standard error (cycles)",
    "limit": "Last cycle that counts as detected",
    "dilution": "Dilution",
    "load_mean": "Mean cycle of positives tested alone",
    "load_sd": "Standard deviation of these cycles",
    "certainty": "Certainty (%)",
    "volume": "Volume of each transfer (µL)",
    "attack_rate": "Attack rate (%)",
    "background": "Background (%)",
    "most_pools": "Most pools",
    "largest_pool": "Largest pool",
    "most_transfers": "Most pools per sample",
    "name": "Name of the run",
    "names": "Names of the samples",
}

WORDS = {"assays": ASSAY_FIELDS, "kinds": HAS, "stages": STAGES, "labels": FORM_LABELS}


@router.get("/plan")
def plan_page(request: Request) -> Response:
    """The form of a new plan."""
    return show(request, "plan.html", {"fields": START, **WORDS, "trouble": None})


@router.post("/plan")
def ask(request: Request, app_state: Here, form: Sent) -> Response:
    """Simulate designs for what was asked."""
    try:
        name, question = form.line("name") or "New run", asked(form, app_state)
        volume = form.number("volume", least=0.01, most=10_000)
    except ValueError as error:
        facts = {"fields": {**START, **form.fields}, **WORDS, "trouble": Trouble(_labelled(str(error)))}
        return show(request, "plan.html", facts, 422)
    return RedirectResponse(f"/jobs/{plan_job(app_state, name, question, volume).id}", 303)


def plan_job(app_state: AppState, name: str, question: Question, volume: float) -> Job:
    """The job that simulates designs for a question, and leads to their draft."""
    key = secrets.token_hex(8)

    def work(job: Job) -> str:
        def progress(done: int, of: int) -> None:
            job.report("Simulating designs and decoding them", done, of)

        generator = torch.Generator().manual_seed(PLAN_SEED)
        made = plan(question, generator=generator, progress=progress, seconds=app_state.settings.planning)
        app_state.drafts.put(key, Draft(name, made, volume))
        return f"/drafts/{key}"

    try:
        return app_state.queue.add(Job(f"plan {key}", f"Planning {name}", work, "/plan", app_state.settings.longest))
    except Full:
        raise HTTPException(429, "Many jobs wait on this server. Send the question again in a minute.") from None


@router.get("/drafts/{key}")
def draft_page(key: str, request: Request, app_state: Here) -> Response:
    """The candidates, to choose from."""
    draft = drafted(app_state, key)
    made = draft.plan
    rows, today = (
        [(one, _bar(one, made), load_cells(made, one)) for one in shown] for shown in (made.candidates, made.classical)
    )
    facts = {"draft": draft, "key": key, "rows": rows, "today": today, "lines": plan_words(made)[1:]}
    facts |= {"load_columns": load_columns(made), "load_meaning": LOAD_COLUMN_MEANING if load_columns(made) else ""}
    return show(request, "draft.html", {**facts, "samples": len(made.question.samples)})


@router.post("/drafts/{key}")
def choose(key: str, app_state: Here, form: Sent) -> Response:
    """Make a run of one candidate."""
    draft = drafted(app_state, key)
    number = form.whole("candidate", least=0, most=len(draft.plan.candidates) - 1)
    run = add_run(
        app_state, form.line("name") or draft.name, chosen(draft.plan, draft.plan.candidates[number]), draft.volume
    )
    return RedirectResponse(f"/runs/{run}/print", 303)


def asked(form: Form, app_state: AppState) -> Question:
    """The question that a form asks."""
    most_pools, largest_pool, most_transfers = (
        form.whole(name, least=1, most=app_state.settings.most_samples) if form.text(name) else None
        for name in ("most_pools", "largest_pool", "most_transfers")
    )
    samples, (noise, loads) = _samples(form, app_state), _assay(form)
    attack, background = (
        form.percent(name, least=0, most=100) if form.text(name) else None for name in ("attack_rate", "background")
    )
    values = _values(form)
    return Question(
        samples,
        _positives(form, len(samples)) if values is None else positives_of(values, len(samples)),
        noise,
        form.percent("certainty", least=50, most=99.9),
        most_pools,
        largest_pool,
        most_transfers,
        follow_ups=_stages(form),
        attack_rate=attack,
        background=background,
        loads=loads,
        values=values,
    )


def _values(form: Form) -> Categories | Copies | None:
    """What samples have, where that is not just positive or negative."""
    kind = form.text("has")
    if kind == "categories":
        return parse_categories(form.line("categories", most=1000))
    return Copies(frequency=form.percent("allele", least=0.001, most=50), ploidy=2) if kind == "copies" else None


def _positives(form: Form, samples: int) -> tuple[float, float]:
    """How many samples are positive: numbers, or per cent of the samples."""
    fewest, most = (read_number(name, form.text(name)) for name in ("fewest", "most"))
    for name, number in (("fewest", fewest), ("most", most)):
        if not number.percent and number.value > samples:
            raise ValueError(f"{name}={number.text} is not valid: write a number from 0 to {samples}, or per cent.")
    if most.percent and not fewest.percent:
        fewest = fewest._replace(percent=True)  # 1 to 3 % means both
    return expected_positives(fewest, most, samples, between=" and ")


def _stages(form: Form) -> bool:
    """Whether samples in doubt may be tested alone in a second round."""
    chosen = form.text("stages")
    return two_stages(form.text("assay")) if chosen not in ("one", "two") else chosen == "two"


def chosen(made: Plan, candidate: Candidate) -> Plan:
    """The plan with another candidate in the place of the recommended one."""
    if candidate is made.recommended:
        return made
    return replace(made, recommended=candidate, reached=candidate.interval.low >= made.question.certainty)


def add_run(app_state: AppState, name: str, made: Plan, volume: float, kind: str = "plan") -> str:
    """Keep a plan as a run, with all its files."""
    files = plan_files(made, volume=volume)
    return keep_plan(app_state, name, files, read_plan("plan", files), kind, plan_words(made)[1:])


def keep_plan(
    app_state: AppState,
    name: str,
    files: Mapping[str, bytes],
    written: PlanFolder,
    kind: str = "plan",
    lines: Sequence[str] = (),
) -> str:
    """Keep the files of a plan as a run; `lines` say what the plan promises."""
    facts = {
        "samples": written.problem.items,
        "pools": written.problem.pools,
        "design": written.name,
        "code": written.code,
        "lines": list(lines),
    }
    return app_state.store.add_run(name, kind, facts, files)


def _samples(form: Form, app_state: AppState) -> Samples:
    """The samples: those of a file, those named, or as many as were said."""
    most = app_state.settings.most_samples
    names = [line.strip() for line in form.text("names", most=200_000).splitlines() if line.strip()]
    if form.upload:
        found = Samples.read("The file of samples", data=form.upload)
    elif names:
        found = Samples.placed(names)
    else:
        return Samples.numbered(form.whole("samples", least=2, most=most))
    if len(found) > most:
        raise ValueError(f"There are {len(found):,} samples: plan for {most:,} at most.")
    return found


def _assay(form: Form) -> tuple[Noise, Loads | None]:
    """What a pool reports and, where that is an amount, what positives have."""
    kind = form.text("assay")
    if kind == "ct":
        sigma, (limit, mean) = form.number("ct_sigma", least=0.01, most=10), _cycles(form, "limit", "load_mean")
        given = {"sigma": sigma, "limit": limit, "dilution": form.number("dilution", least=0, most=1)}
        sd = form.number("load_sd", least=0.1, most=20)
        measured = parse_measured(kind, {**given, "load_mean": mean, "load_sd": sd})
        assert measured is not None  # as "ct" is one of the assays that measure amounts
        return measured
    if kind == "off":
        return parse_assay("count", [form.percent("off", least=0.01, most=50)]), None
    if kind == "positive":
        missed, false = (form.percent(name, least=0, most=49) for name in ("missed", "false"))
        return parse_assay("positive", [1 - missed, 1 - false]), None
    if kind == "reading":
        return parse_assay("reading", [form.number("sigma", least=0.01, most=10)]), None
    if kind == "reads":
        depth = form.whole("depth", least=1, most=MOST_READS)
        return parse_assay("reads", [form.percent("wrong_reads", least=0, most=40)], depth), None
    return parse_assay(kind, []), None


def _cycles(form: Form, *names: str) -> list[float]:
    return [form.number(name, least=1, most=100) for name in names]


def _bar(one: Candidate | ClassicalScheme, made: Plan) -> Markup:
    """The share of plates that were right, as a bar with its interval and the certainty asked for."""
    title, certainty = f"{100 * one.success:.1f} %", made.question.certainty
    return Markup(pages.rate_bar(one.success, one.interval, title=title, limit=certainty))


def drafted(app_state: AppState, key: str) -> Draft:
    """The draft of an address."""
    draft = app_state.drafts.get(key)
    if draft is None:
        raise HTTPException(404, "This plan was not made a run, and is not kept any more. Plan it again.")
    return draft


def _labelled(words: str) -> str:
    """An error with the form's own name of the field before it."""
    name = words.split("=", 1)[0].split(" ", 1)[0]
    return f"{FORM_LABELS[name]}: {words}" if name in FORM_LABELS else words
