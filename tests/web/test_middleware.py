"""The guard: who may ask, from where, and how much."""

import asyncio
import re
import socket
from contextlib import closing
from dataclasses import replace

import httpx
import pytest

from qgt.web.app import _listening, in_background
from qgt.web.middleware import host_name
from qgt.web.settings import Settings, new_token

TOKEN = "a-token-nobody-guesses"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "localhost:9", "LOCALHOST", "[::1]:8421"])
def test_known_names_pass(visitor, host):
    assert visitor.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "evil@localhost",
        "localhost/..",
        "",
        "[::1",
    ],
)
def test_other_names_do_not(visitor, host):
    answer = visitor.get("/", headers={"Host": host})
    assert answer.status_code in (400, 421)
    assert "run" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),  # another port is another site
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({}, 303),
    ],
)
def test_forms_come_from_our_own_pages(visitor, headers, status):
    answer = visitor.client.post("/sign-in", data={"word": visitor.word}, headers=headers)
    assert answer.status_code == status


def test_our_own_origin_passes(visitor):
    origin = str(visitor.client.base_url).rstrip("/")
    answer = visitor.client.post("/sign-in", data={"word": visitor.word}, headers={"Origin": origin})
    assert answer.status_code == 303


def test_every_form_needs_the_word(visitor):
    from qgt.web import calls, counting, planning, runs, start

    parts = (calls, counting, planning, runs, start)
    posts = [route.path for part in parts for route in part.router.routes if "POST" in route.methods]
    assert len(posts) >= 5
    for path in posts:
        path = re.sub(r"\{version\}", "1", re.sub(r"\{\w+\}", "0123456789abcdef", path))
        for data in ({}, {"word": "guess"}, {"word": visitor.word[:-1]}):
            answer = visitor.client.post(path, data=data)
            assert answer.status_code in (403, 404), path
        assert visitor.client.post(path, data={"word": ""}).status_code in (403, 404)


def test_every_answer_forbids_what_it_does_not_need(visitor):
    for path in ("/", "/nowhere", "/static/page.css", "/static/nothing"):
        headers = visitor.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_pages_hold_no_script_of_their_own_and_name_no_other_machine(visitor):
    for path in ("/", "/plan", "/demo?pools=40&seed=1", "/nowhere"):
        text = visitor.get(path).text
        assert not re.search(r"<script(?! src=\"/static/)|\son\w+=|javascript:|style=", text)
        assert not re.search(r"(src|href|action)=\"(https?:)?//", text)


def test_no_part_of_an_answer_waits_for_an_acknowledgement(settings):
    """Each answer is sent in two parts; with Nagle's algorithm the second waited 40 ms."""

    async def at_once(own):
        found = asyncio.get_running_loop().create_future()

        def served(reader, writer):
            with closing(writer):
                found.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

        async with await asyncio.start_server(served, sock=own):
            with socket.create_connection(own.getsockname()):
                return await found

    with _listening(settings) as own:
        assert asyncio.run(at_once(own))


def test_a_large_body_is_refused(settings):
    small = replace(settings, largest_body=10_000)
    with in_background(small) as running, httpx.Client(base_url=running.settings.address) as client:
        assert client.post("/sign-in", data={"word": "x" * 20_000}).status_code == 413

        def parts():  # without a stated length
            for _ in range(30):
                yield b"x" * 1000

        assert client.post("/sign-in", content=parts()).status_code == 413
        assert client.post("/sign-in", data={"word": "x" * 5000}).status_code == 403


def test_a_slow_body_is_not_waited_for(settings):
    hurried = replace(settings, slowest_body=0.2)
    with in_background(hurried) as running, socket.create_connection(("127.0.0.1", running.settings.port)) as own:
        own.sendall(b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nword=")
        own.settimeout(10)
        assert own.recv(1000).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(visitor, method):
    assert visitor.client.request(method, "/").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        *("/nowhere", "/runs/x", "/runs/../../etc/passwd", "/static/../app.py", "/static/..%2fapp.py", "/jobs/1"),
        *("/runs/0123456789abcdef/files/..%2f..%2fetc%2fpasswd", "/runs/%00", "/runs/0/versions/one", "/docs"),
    ],
)
def test_addresses_that_are_not_there_are_pages_in_words(visitor, path):
    answer = visitor.get(path)
    assert answer.status_code == 404
    assert "There is no such page" in answer.text


def test_nobody_enters_another_address_without_the_token(tmp_path):
    with pytest.raises(ValueError, match="give a token"):
        Settings(tmp_path, host="0.0.0.0")
    with pytest.raises(ValueError, match=r"give 16 or more\."):
        Settings(tmp_path, token="short")
    open_to_all = Settings(tmp_path, host="0.0.0.0", port=0, token=TOKEN, names=("lab.example",))
    assert TOKEN not in repr(open_to_all)
    with in_background(open_to_all) as running:
        base = f"http://127.0.0.1:{running.settings.port}"
        with httpx.Client(base_url=base) as client:
            assert client.get("/").headers["location"] == "/sign-in"
            assert client.post("/examples/clear").status_code == 401
            page = client.get("/sign-in", headers={"Host": "lab.example"})
            word = re.search(r'name="word" value="(\w+)"', page.text)[1]
            assert client.post("/sign-in", data={"word": word, "token": TOKEN[:-1]}).status_code == 401
            assert client.get("/").status_code == 303
            entered = client.post("/sign-in", data={"word": word, "token": TOKEN})
            cookie = entered.headers["set-cookie"].lower()
            assert "httponly" in cookie and "samesite=strict" in cookie and TOKEN not in cookie
            assert client.get("/").status_code == 200
        assert httpx.get(base, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        for wrong in ({"Authorization": f"Bearer {TOKEN}x"}, {"Cookie": "qgt_entry=0"}, {"Cookie": b"\xff;;="}):
            assert httpx.get(base, headers=wrong).status_code == 303


def test_a_name_that_is_no_name_is_refused(tmp_path):
    for name in ("http://lab", "lab:80", "a b", ""):
        with pytest.raises(ValueError, match="give the name of a machine"):
            Settings(tmp_path, names=(name,))
    with pytest.raises(ValueError, match="port=70000"):
        Settings(tmp_path, port=70000)


def test_tokens_differ_and_host_names_are_read():
    assert new_token() != new_token()
    assert host_name("lab.example:99999999") == ""


def test_a_port_that_is_taken_is_said(settings):
    with (
        in_background(settings) as running,
        pytest.raises(ValueError, match="give another address or port"),
        in_background(running.settings),
    ):
        pass
