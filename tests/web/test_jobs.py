"""The queue: a cap, progress, cancelling, and faults that do not stop it."""

import threading

import pytest

from qgt.web.jobs import Full, Job, Queue


@pytest.fixture
def queue():
    made = Queue(workers=1, most_waiting=2)
    yield made
    made.close()


def job(work, key="one", longest=60.0):
    return Job(key, key, work, back="/back", longest=longest)


def held(queue, key="held"):
    """A job at work that waits to be let go."""
    started, go = threading.Event(), threading.Event()

    def work(job):
        started.set()
        while not go.wait(0.01):
            job.report("working", 1, 4)
        return "/made"

    added = queue.add(job(work, key))
    assert started.wait(5)
    return added, go


def test_a_job_reports_and_is_done(queue):
    added, go = held(queue)
    queue.wait(added, 0.05)
    assert (added.state, added.words, added.share, added.over) == ("running", "working", 0.25, False)
    go.set()
    queue.wait(added, 5.0)
    assert (added.state, added.made, added.over) == ("done", "/made", True)


def test_the_queue_has_a_cap(queue):
    _, go = held(queue)
    waiting = [queue.add(job(lambda job: "/", f"waits {n}")) for n in range(2)]
    with pytest.raises(Full):
        queue.add(job(lambda job: "/", "one too many"))
    assert [queue.ahead(one) for one in waiting] == [0, 1]
    go.set()
    queue.wait(waiting[1], 5.0)
    assert waiting[1].state == "done"


def test_the_same_request_is_the_same_job(queue):
    first, go = held(queue, "same")
    assert queue.add(job(lambda job: "/other", "same")) is first
    go.set()
    queue.wait(first, 5.0)
    again = queue.add(job(lambda job: "/other", "same"))
    assert again is not first
    assert queue.find("same") is again


def test_a_running_job_is_cancelled_when_it_next_reports(queue):
    added, _ = held(queue)
    queue.cancel(added)
    queue.wait(added, 5.0)
    assert (added.state, added.made) == ("cancelled", "/back")


def test_a_waiting_job_is_cancelled_at_once_and_never_starts(queue):
    _, go = held(queue)
    ran = []
    waiting = queue.add(job(lambda job: ran.append(1) or "/", "waits"))
    queue.cancel(waiting)
    assert waiting.state == "cancelled"
    go.set()
    last = queue.add(job(lambda job: "/", "last"))
    queue.wait(last, 5.0)
    assert last.state == "done" and not ran


def test_what_is_refused_is_said_and_a_fault_is_not_shown():
    queue = Queue(1, 5, lambda job, fault: f"see the log for {type(fault).__name__}")

    def refused(job):
        raise ValueError("counts are negative")

    def broken(job):
        raise KeyError("secret path")

    first, second = queue.add(job(refused, "a")), queue.add(job(broken, "b"))
    third = queue.add(job(lambda job: "/fine", "c"))
    queue.wait(third, 5.0)
    assert (first.state, first.words) == ("failed", "counts are negative")
    assert (second.state, second.words) == ("failed", "see the log for KeyError")
    assert third.state == "done"  # the thread went on
    queue.close()


def test_a_job_that_takes_too_long_is_stopped(queue):
    def work(job):
        while True:
            job.report("working")

    added = queue.add(job(work, longest=0.05))
    queue.wait(added, 5.0)
    assert added.state == "failed"
    assert added.words.startswith("It took longer than 0 s")


def test_finished_jobs_are_forgotten_in_the_end(queue, monkeypatch):
    monkeypatch.setattr("qgt.web.jobs.REMEMBERED", 3)
    for number in range(8):
        added = queue.add(job(lambda job: "/", f"job {number}"))
        queue.wait(added, 5.0)
    assert queue.find("job 0") is None
    assert queue.find("job 7") is added
    assert queue.get(added.id) is added
