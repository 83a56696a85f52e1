"""The page under load, under kills and under hostile names: what `qgt serve` promises, measured on a real server.

    python benchmarks/server.py --users 20 --seconds 600 --kills 100 --output results/server.json
    python benchmarks/server.py api --clients 64 --sheets 10000 --output results/server_api.json
    python benchmarks/server.py api-kills --clients 64 --sheets 500 --kills 5 --output results/server_api_kills.json

Users plan nothing: each has a run of 96 samples, and again and again enters a simulated plate, waits for its calls,
checks them against the truth and fetches the report. A kill is a SIGKILL at a random moment while several users enter
counts; afterwards every count that was acknowledged must be there.

`api` is the same for programs: clients send sheets by the JSON API, each with a plate of its own, and compare the calls
with the truth. In `api-kills` the server is killed in the middle of its jobs meanwhile, and started again.
"""

import argparse
import csv
import io
import json
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # where the hostile texts are

from hostile_texts import FORMULA, HOSTILE, Markup
from qgt.files.store import write_text
from qgt.lab.plan.planning import Candidate, Plan
from qgt.lab.plan.question import Question
from qgt.lab.plan.simulation import Scout
from qgt.lab.sheets.samples import Samples
from qgt.model.noise import Noiseless
from qgt.version import provenance
from qgt.web.app import in_background
from qgt.web.planning import add_run
from qgt.web.settings import Settings
from qgt.web.start import EXAMPLES, example_plan
from qgt.web.state import AppState
from qgt.web.store import PageStore


@dataclass
class Server:
    """`qgt serve` as a process of its own."""

    folder: Path
    port: int = 0
    process: subprocess.Popen[str] = field(init=False)
    address: str = field(init=False)

    def __post_init__(self) -> None:
        command = [sys.executable, "-m", "qgt", "serve", str(self.folder), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.address = line.split()[-1]
        for _ in range(500):
            try:
                httpx.get(self.address, timeout=5)
                return
            except httpx.HTTPError:
                time.sleep(0.02)
        raise RuntimeError(f"the server did not start: {line!r}")

    def memory(self) -> float:
        """Resident megabytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it, and wait until it has ended."""
        self.process.send_signal(how)
        self.process.wait(timeout=60)


@dataclass
class Tally:
    """What all users saw."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, took: float, status: int) -> None:
        """Count a request."""
        with self.lock:
            self.seconds.setdefault(kind, []).append(took)
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def fault(self, words: str) -> None:
        """Note what should not have happened."""
        with self.lock:
            self.faults.append(words)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="page", choices=("page", "api", "api-kills"))
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--sheets", type=int, default=1000)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0, help="of load; 0 leaves it out")
    parser.add_argument("--think", type=float, default=5.0, help="mean seconds between a user's plates")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--hostile", type=int, default=len(HOSTILE), help="names and cells to try")
    parser.add_argument("--output", type=Path, default=None)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    if given.what == "api":
        found["api"] = api(given.clients, given.sheets)
    if given.what == "api-kills":
        found["api_kills"] = api(given.clients, given.sheets, given.kills)
    if given.what != "page":
        given.seconds = given.kills = given.hostile = 0
    if given.seconds:
        found["load"] = load(given.users, given.seconds, given.think)
    if given.kills:
        found["kills"] = kills(given.kills)
    if given.hostile:
        found["hostile"] = hostile(given.hostile)
    found["made_on"] = provenance("cpu")
    text = json.dumps(found, indent=1) + "\n"
    print(text)
    if given.output is not None:
        write_text(given.output, text)
    return int(bool(broken(found)))


def broken(found: dict[str, Any]) -> list[str]:
    """The promises that were not kept, printed."""
    load, kills, hostile = (found.get(name) or {} for name in ("load", "kills", "hostile"))
    faults = [
        *(["server errors"] if load.get("server_errors") else []),
        *(["wrong calls"] if load.get("wrong") else []),
        *(["slow decodes"] if load and load["p99_seconds"]["calls"] >= 1.0 else []),
        *(["memory growth"] if load.get("memory_growth", 0.0) >= 0.05 else []),
        *(["lost counts"] if kills.get("lost") else []),
        *(["hostile texts"] if hostile.get("through") else []),
        *(f"{name}: {word}" for name in ("api", "api_kills") for word in API_PROMISES if found.get(name, {}).get(word)),
        *(["api: memory growth"] if found.get("api", {}).get("memory_growth", 0.0) >= 0.05 else []),
    ]
    print("promises kept" if not faults else f"promises broken: {', '.join(faults)}")
    return faults


# --- load -----------------------------------------------------------------------------------------------------------


def load(users: int, seconds: float, think: float) -> dict[str, object]:
    """Users at work for a while: times, statuses, wrong calls, and how memory grows after the first third."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = example_plan(EXAMPLES["clear"])
        app_state = AppState.open(Settings(folder))
        runs = [add_run(app_state, f"User {n}", made, 10.0) for n in range(users)]
        server = Server(folder)
        tally, end = Tally(), time.monotonic() + seconds
        _one_plate(
            server.address, runs[0], app_state.secret.form, made, random.Random(-1), Tally()
        )  # the first one measures
        threads = [
            threading.Thread(
                target=_user, args=(server.address, run, app_state.secret.form, made, n, think, end, tally)
            )
            for n, run in enumerate(runs)
        ]
        for thread in threads:
            thread.start()
        time.sleep(seconds / 3)
        before = server.memory()
        for thread in threads:
            thread.join()
        after = server.memory()
        server.stop()
    return {
        "users": users,
        "seconds": seconds,
        "plates": len(tally.seconds.get("calls", ())),
        "requests": sum(tally.statuses.values()),
        "server_errors": sum(n for status, n in tally.statuses.items() if status >= 500),
        "refused_as_busy": tally.statuses.get(429, 0),
        "statuses": {str(status): n for status, n in sorted(tally.statuses.items())},
        "wrong": tally.faults[:20],
        "p50_seconds": {kind: _quantile(times, 0.5) for kind, times in sorted(tally.seconds.items())},
        "p99_seconds": {kind: _quantile(times, 0.99) for kind, times in sorted(tally.seconds.items())},
        "memory_mb": [round(before, 1), round(after, 1)],
        "memory_growth": round(after / before - 1, 4),
    }


def _user(address: str, run: str, word: str, made: Plan, seed: int, think: float, end: float, tally: Tally) -> None:
    drawn = random.Random(seed)
    while time.monotonic() < end:
        time.sleep(drawn.uniform(0, 2 * think))
        try:
            _one_plate(address, run, word, made, drawn, tally)
        except httpx.HTTPError as error:
            tally.fault(f"{type(error).__name__}: {error}")


def _one_plate(address: str, run: str, word: str, made: Plan, drawn: random.Random, tally: Tally) -> None:
    """Enter a plate, wait for its calls, and compare them with the truth."""
    names, matrix = made.problem.design.item_names, made.problem.design.matrix
    truth = sorted(drawn.sample(range(len(names)), drawn.randint(0, 4)))
    counts = matrix[:, truth].sum(1).tolist()
    fields = {"word": word, "way": "typed", "plate-0": f"{drawn.random()}"}
    fields |= {f"count-0-{n}": f"{count}" for n, count in enumerate(counts)}
    with httpx.Client(base_url=address, timeout=120) as client:
        for path in ("/", f"/runs/{run}", f"/runs/{run}/counts"):
            _timed(tally, "pages", lambda path=path: client.get(path))
        start = time.perf_counter()
        answer = _timed(tally, "submit", lambda: client.post(f"/runs/{run}/counts", data=fields))
        where = answer.headers.get("location", f"/runs/{run}")
        answer = client.get(where, follow_redirects=True)
        while "<progress" in answer.text or answer.status_code == 429:
            time.sleep(0.05)
            answer = client.get(where, follow_redirects=True)
        tally.add("calls", time.perf_counter() - start, answer.status_code)
        rows = list(
            csv.DictReader(io.StringIO(_timed(tally, "download", lambda: client.get(f"{where}/calls.csv")).text))
        )
        called = [names.index(name) for name, call in rows[0].items() if call == "1"]
        if called != truth and 'class="badge certain"' in answer.text:
            tally.fault(f"{where} calls {called} certain, but the truth is {truth}")


def _timed(tally: Tally, kind: str, ask) -> httpx.Response:  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    answer: httpx.Response = ask()
    tally.add(kind, time.perf_counter() - start, answer.status_code)
    return answer


def _quantile(values: list[float], share: float) -> float:
    return round(float(torch.tensor(values, dtype=torch.float64).quantile(share)), 4)


# --- programs -------------------------------------------------------------------------------------------------------

API = "/api/v1"
API_PROMISES = ("server_errors", "lost", "wrong", "faults")  # none of which may be
PATIENCE = 120.0  # seconds without any answer, after which a server that was killed is given up


def api(clients: int, sheets: int, kills: int = 0) -> dict[str, object]:
    """Programs send sheets and wait for their calls, perhaps while the server is killed in the middle of jobs."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder, made = Path(name), example_plan(EXAMPLES["clear"])
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        app_state = AppState.open(Settings(folder))
        runs = [add_run(app_state, f"Client {n}", made, 10.0) for n in range(clients)]
        server, tally, done = Server(folder, port), Tally(), Done()
        _programs_sheet(server.address, runs[0], made, random.Random(-1), Tally(), Done())  # the first one measures
        numbers, start = iter(range(sheets)), time.perf_counter()
        threads = [
            threading.Thread(target=_program, args=(server.address, run, made, n, numbers, tally, done))
            for n, run in enumerate(runs)
        ]
        for thread in threads:
            thread.start()
        memory = []
        for kill in range(kills):
            while done.number < sheets * (kill + 1) / (kills + 1) and any(one.is_alive() for one in threads):
                time.sleep(0.02)
            server.stop(signal.SIGKILL)
            server = Server(folder, port)
        while any(thread.is_alive() for thread in threads):
            if not kills and done.number * 3 >= sheets and not memory:
                memory.append(server.memory())
            time.sleep(0.05)
        took = time.perf_counter() - start
        memory.append(server.memory())
        server.stop()
        kept = sum(app_state.store.run(run).versions for run in runs)
        disk = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
    return {
        "clients": clients,
        "sheets": sheets,
        "kills": kills,
        "decoded": done.number,
        "lost": sheets - done.number,
        "versions_kept": kept,
        "seconds": round(took, 1),
        "sheets_per_second": round(done.number / took, 1),
        "server_errors": sum(n for status, n in tally.statuses.items() if status >= 500),
        "statuses": {str(status): n for status, n in sorted(tally.statuses.items())},
        "connections_lost": done.interrupted,
        "wrong": done.wrong,
        "not_certain": done.doubtful,
        "faults": tally.faults[:20],
        "p50_seconds": _quantile(tally.seconds["calls"], 0.5),
        "p99_seconds": _quantile(tally.seconds["calls"], 0.99),
        "memory_mb": [round(one, 1) for one in memory],
        "memory_growth": round(memory[-1] / memory[0] - 1, 4) if len(memory) > 1 else None,
        "disk_mb": round(disk, 1),
    }


@dataclass
class Done:
    """How many sheets have their calls, and how."""

    number: int = 0
    wrong: int = 0  # certain, and not the truth
    doubtful: int = 0
    interrupted: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **numbers: int) -> None:
        """Add to some of the numbers."""
        with self.lock:
            for name, number in numbers.items():
                setattr(self, name, getattr(self, name) + number)


def _program(address: str, run: str, made: Plan, seed: int, numbers, tally: Tally, done: Done) -> None:  # type: ignore[no-untyped-def]
    """A client: it takes the next sheet until there is none."""
    drawn = random.Random(seed)
    while True:
        with tally.lock:
            number = next(numbers, None)
        if number is None:
            return
        try:
            _programs_sheet(address, run, made, drawn, tally, done)
        except (httpx.HTTPError, KeyError, ValueError) as error:
            tally.fault(f"{type(error).__name__}: {error}")


def _programs_sheet(address: str, run: str, made: Plan, drawn: random.Random, tally: Tally, done: Done) -> None:
    """Send a sheet, wait for its calls, and compare them with the truth."""
    names, matrix = made.problem.design.item_names, made.problem.design.matrix
    truth = sorted(drawn.sample(range(len(names)), drawn.randint(0, 4)))
    sheet = {"names": [f"plate {drawn.random()}"], "values": [matrix[:, truth].sum(1).tolist()]}
    start = time.perf_counter()
    kept = _asked(lambda client: client.post(f"{API}/runs/{run}/counts", json=sheet), address, tally, done)
    where = kept.json()["result"]
    answer = _asked(lambda client: client.get(where, params={"wait": 30}), address, tally, done)
    while answer.status_code == 202:
        answer = _asked(lambda client: client.get(where, params={"wait": 30}), address, tally, done)
    tally.add("calls", time.perf_counter() - start, answer.status_code)
    (plate,) = answer.json()["results"]
    called = sorted(names.index(sample) for sample, call in plate["calls"].items() if call == "positive")
    certain = plate["verdict"] == "certain"
    done.add(number=1, wrong=int(certain and called != truth), doubtful=int(not certain))


def _asked(ask, address: str, tally: Tally, done: Done) -> httpx.Response:  # type: ignore[no-untyped-def]
    """An answer that is not 429; a request whose server went away is sent again."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with httpx.Client(base_url=address, timeout=90) as client:
                answer: httpx.Response = ask(client)
        except httpx.TransportError:
            done.add(interrupted=1)
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
            continue
        if answer.status_code != 429:
            tally.add("requests", 0.0, answer.status_code)
            answer.raise_for_status()
            return answer
        tally.add("busy", 0.0, 429)
        time.sleep(float(answer.headers["Retry-After"]) * random.uniform(0.5, 1.5))
        end = time.monotonic() + PATIENCE  # the server has answered, so the wait for a lost one begins anew


# --- kills ----------------------------------------------------------------------------------------------------------


def kills(number: int) -> dict[str, object]:
    """Kill the server while counts are entered; every acknowledged one must be there, whole, afterwards."""
    acknowledged: list[tuple[str, int, float]] = []
    lost = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app_state = AppState.open(Settings(folder))
        runs = [add_run(app_state, f"User {n}", example_plan(EXAMPLES["clear"]), 10.0) for n in range(4)]
        pools = EXAMPLES["clear"].pools
        for kill in range(number):
            server = Server(folder)
            sent: list[tuple[str, int, float]] = []
            threads = [
                threading.Thread(target=_enter, args=(server.address, run, app_state.secret.form, pools, kill, sent))
                for run in runs
            ]
            for thread in threads:
                thread.start()
            time.sleep(random.Random(kill).uniform(0.05, 1.0))
            server.stop(signal.SIGKILL)
            for thread in threads:
                thread.join()
            acknowledged += sent
            lost += _lost(folder, acknowledged)
    return {"kills": number, "acknowledged": len(acknowledged), "lost": lost}


def _enter(address: str, run: str, word: str, pools: int, kill: int, sent: list[tuple[str, int, float]]) -> None:
    """Enter counts, each sheet unlike any other, until the server is gone."""
    with httpx.Client(base_url=address, timeout=10) as client:
        for number in range(10_000):
            value = kill + number / 10_000
            fields = {"word": word, "way": "typed", "plate-0": "1"} | {f"count-0-{n}": f"{value}" for n in range(pools)}
            try:
                answer = client.post(f"/runs/{run}/counts", data=fields)
            except httpx.HTTPError:
                return
            if answer.status_code == 303:
                sent.append((run, int(answer.headers["location"].rsplit("/", 1)[1]), value))


def _lost(folder: Path, acknowledged: list[tuple[str, int, float]]) -> int:
    store, kept = PageStore.open(folder), {}
    for run in {run for run, _, _ in acknowledged}:
        kept |= {(run, one.version): one.counts["values"][0][0] for one in store.submissions(run)}
    return sum(kept.get((run, version)) != value for run, version, value in acknowledged)


# --- hostile names and cells ----------------------------------------------------------------------------------------


def hostile(number: int) -> dict[str, object]:
    """Names and cells that would run, escape or break something, in every place where people write."""
    faults: list[str] = []
    tried = HOSTILE[:number]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        app_state = stack.enter_context(in_background(Settings(folder, port=0, calibrate=0.5)))
        client = stack.enter_context(httpx.Client(base_url=app_state.settings.address, timeout=60))
        for place, text in enumerate(tried):
            _attack(client, app_state, text, place, faults)
        if len(app_state.store.runs()) < len(tried) or client.get("/").status_code != 200:
            faults.append("the store was harmed")
    return {"tried": len(tried), "through": len(faults), "faults": faults[:20]}


def _attack(client: httpx.Client, app_state: AppState, text: str, place: int, faults: list[str]) -> None:
    """One hostile text as the name of a run, a sample, a plate, a note, a cell and a file."""
    word = app_state.secret.form
    plan = _plan_with(text)
    run = add_run(app_state, text if text.isprintable() else "run", plan, 10.0)
    pools = plan.problem.design.pool_names
    counts = plan.problem.design.matrix[:, [0]].sum(1).tolist()
    typed = {"way": "typed", "plate-0": text, "note": text, **{f"count-0-{n}": f"{c}" for n, c in enumerate(counts)}}
    pasted = {
        "way": "pasted",
        "pasted": f"{text}\n" + "\n".join(f"{p}\t{c}" for p, c in zip(pools, counts, strict=True)),
    }
    cell = {
        "way": "typed",
        "plate-0": "cell",
        **{f"count-0-{n}": f"{c}" for n, c in enumerate(counts)},
        "count-0-0": text,
    }
    form = {"name": text, "samples": text, "names": f"{text}\nb", "fewest": "0", "most": text, "assay": text}
    answers = [client.post(f"/runs/{run}/counts", data={"word": word, **fields}) for fields in (typed, pasted, cell)]
    answers.append(client.post("/plan", data={"word": word, **form, "certainty": text, "volume": text}))
    upload = {"file": (text.replace("\x00", "") or "x", text.encode("utf-8", "replace"))}
    answers.append(client.post(f"/runs/{run}/counts", data={"word": word, "way": "uploaded"}, files=upload))
    for path in ("/", f"/runs/{run}", f"/runs/{run}/counts?version=1", f"/runs/{run}/print", f"/runs/{run}/calls"):
        answers.append(client.get(path, follow_redirects=True))
    for path in ("sheets/pooling_sheet.html", "versions/1/report", "versions/1/report.csv", "versions/1/calls.csv"):
        answers.append(client.get(f"/runs/{run}/{path}"))
    for number, answer in enumerate(answers):
        if answer.status_code >= 500:
            faults.append(f"{place}: answer {number} is {answer.status_code}")
        if "html" in answer.headers.get("content-type", ""):
            page = Markup()
            page.feed(answer.text)
            faults += [f"{place}: answer {number} holds {one!r}" for one in page.found]
        if "set-cookie" in answer.headers:
            faults.append(f"{place}: answer {number} sets a cookie")
        if answer.headers.get("content-type", "").startswith("text/csv"):
            cells = [cell for row in csv.reader(io.StringIO(answer.text)) for cell in row]
            faults += [f"{place}: cell {cell!r}" for cell in cells if FORMULA.match(cell)]


def _plan_with(text: str) -> Plan:
    """A small plan, with a sample of that name where the lab takes it."""
    try:
        samples = Samples.placed([text, *(f"S{n}" for n in range(11))])
    except ValueError:  # refused, as it should be
        samples = Samples.numbered(12)
    question = Question(samples, (0.0, 2.0), Noiseless(), 0.9)
    scout = Scout(samples, question.prior, question.assay, None, seed=0)
    one = Candidate(scout.design(8, 4), 4, 50, 49, 0.0, 3.5)
    return Plan(question, (one,), one, False, seed=0)


if __name__ == "__main__":
    sys.exit(main())
