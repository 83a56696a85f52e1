"""Starting a server, and stopping it: uvicorn around the application, with limits of its own."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import uvicorn

from qgt.web.app import make_app
from qgt.web.house import House
from qgt.web.settings import Settings

MOST_CONNECTIONS, IDLE = 500, 10  # at once; seconds after which a silent one is closed


def serve(settings: Settings, on_start: Callable[[str], None]) -> None:
    """Serve until the process is asked to end; `on_start` is given the address."""
    with _listening(settings) as own:
        settings = replace(settings, port=own.getsockname()[1])
        server = _server(House.open(settings))
        on_start(settings.address)
        with suppress(KeyboardInterrupt):  # uvicorn ends in good order, and then raises it again
            server.run(sockets=[own])


@contextmanager
def in_background(settings: Settings) -> Iterator[House]:
    """A server in a thread, for tests and measurements; the house's settings have the port that was free."""
    with _listening(settings) as own:
        house = House.open(replace(settings, port=own.getsockname()[1]))
        server = _server(house)
        thread = threading.Thread(target=server.run, args=([own],), daemon=True)
        thread.start()
        try:
            while not server.started and thread.is_alive():
                thread.join(0.005)
            yield house
        finally:
            server.should_exit = True
            thread.join(timeout=30.0)


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket, bound before anything else is done: a port that is taken is said in words."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            own.bind((settings.host, settings.port))
        except OSError as error:
            raise ValueError(
                f"{settings.host}, port {settings.port}: cannot be used ({error.strerror}); "
                "give another address or port."
            ) from error
        yield own


def _server(house: House) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            make_app(house),
            ws="none",
            log_level="warning",
            server_header=False,
            proxy_headers=False,  # nobody in front of us is trusted to say who asks
            timeout_keep_alive=IDLE,
            timeout_graceful_shutdown=5,
            limit_concurrency=MOST_CONNECTIONS,
            h11_max_incomplete_event_size=2**16,
        )
    )
