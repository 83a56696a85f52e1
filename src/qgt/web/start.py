"""The first page, examples to try, signing in, and the page of a job at work."""

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from qgt.web.examples import EXAMPLES, add_example
from qgt.web.forms import Sent
from qgt.web.guard import COOKIE, same
from qgt.web.house import Here, House
from qgt.web.jobs import Full, Job
from qgt.web.views import Trouble, show

router = APIRouter()


@router.get("/")
def first(request: Request, house: Here) -> Response:
    """Past runs, newest first, and what to begin with."""
    facts = {"runs": house.store.runs(), "verdicts": house.store.newest_verdicts(), "examples": EXAMPLES.values()}
    return show(request, "start.html", facts)


@router.post("/examples/{name}")
def example(name: str, house: Here, form: Sent) -> Response:
    """Make an example's run, with its counts entered."""
    if name not in EXAMPLES:
        raise HTTPException(404, "There is no such example.")

    def work(job: Job) -> str:
        return f"/runs/{add_example(house, EXAMPLES[name])}/calls"

    try:
        job = house.queue.add(Job(f"example {name}", EXAMPLES[name].title, work, "/", house.settings.longest))
    except Full:
        raise HTTPException(429, "Many jobs wait on this server. Try again in a minute.") from None
    return RedirectResponse(f"/jobs/{job.id}", 303)


@router.get("/jobs/{id}")
def job_page(id: str, request: Request, house: Here) -> Response:
    """How far a job is; once it is done, what it made."""
    job = house.queue.get(id)
    if job is None:
        raise HTTPException(404, "This job is not known any more. What it was to do is kept: look at your runs.")
    house.queue.wait(job, 0.5)
    return RedirectResponse(job.made, 303) if job.state == "done" else job_answer(request, house, job)


@router.post("/jobs/{id}/cancel")
def cancel(id: str, house: Here, form: Sent) -> Response:
    """Cancel a job."""
    job = house.queue.get(id)
    if job is None:
        raise HTTPException(404, "This job is not known any more: it ended long ago.")
    house.queue.cancel(job)
    house.queue.wait(job, 2.0)
    return RedirectResponse(f"/jobs/{id}", 303)


def job_answer(request: Request, house: House, job: Job) -> Response:
    """A page about a job that is not done."""
    facts = {"job": job, "ahead": house.queue.ahead(job)}
    return show(request, "job.html", facts, 422 if job.state == "failed" else 200)


@router.get("/sign-in")
def door(request: Request, house: Here) -> Response:
    """Where the token is given."""
    if house.settings.token is None:
        return RedirectResponse("/", 303)
    return show(request, "sign_in.html", {"trouble": None})


@router.post("/sign-in")
def enter(request: Request, house: Here, form: Sent) -> Response:
    """Let somebody in who knows the token."""
    token = house.settings.token
    if token is None:
        return RedirectResponse("/", 303)
    if not same(form.text("token"), token):
        trouble = Trouble("This is not the token. It stands in the terminal in which qgt serve was started.", "token")
        return show(request, "sign_in.html", {"trouble": trouble}, 401)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(COOKIE, house.secret.entry(token), httponly=True, samesite="strict", max_age=7 * 86400)
    return answer
