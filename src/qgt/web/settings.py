"""What a server is started with: where it listens, who may enter, where it keeps things, and how much it takes."""

import ipaddress
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHORTEST_TOKEN = 16
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.\-]*[A-Za-z0-9])?|[0-9A-Fa-f:]+")


@dataclass(frozen=True)
class Settings:
    """How one server runs.

    On an address that other machines reach, everybody there could read and enter counts: it needs a token.

    Example:
        >>> Settings(Path("runs")).address
        'http://127.0.0.1:8421'
        >>> Settings(Path("runs"), host="0.0.0.0")
        Traceback (most recent call last):
        ValueError: host='0.0.0.0' can be reached from other machines: give a token, or listen on 127.0.0.1.
    """

    folder: Path  # where runs are kept
    host: str = "127.0.0.1"
    port: int = 8421
    token: str | None = field(default=None, repr=False)  # what a visitor has to know
    names: tuple[str, ...] = ()  # other names by which browsers may call this machine
    largest_body: int = 5 * 2**20  # bytes of a request
    slowest_body: float = 30.0  # seconds that a request may take to arrive
    most_instances: int = 1000  # plates of one sheet
    most_cells: int = 200_000  # counts of one sheet
    most_samples: int = 2000  # of one plan
    most_requests: int = 12_000  # a minute, from one address
    most_waiting: int = 20  # jobs in the queue
    workers: int = 2  # jobs at a time
    seconds: float = 5.0  # for each instance
    longest: float = 600.0  # seconds for a whole sheet
    planning: float = 45.0  # seconds for a plan
    calibrate: float = 5.0  # seconds of simulation, by which confidence and fit are measured

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ValueError(f"port={self.port} is not valid: give a number from 0 to 65535.")
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ValueError(f"token has {len(self.token)} characters: give {SHORTEST_TOKEN} or more.")
        if self.token is None and not self.private:
            raise ValueError(
                f"host={self.host!r} can be reached from other machines: give a token, or listen on 127.0.0.1."
            )
        for name in self.names:
            if not _NAME.fullmatch(name):
                raise ValueError(f"name={name!r} is not valid: give the name of a machine, such as lab.example.org.")

    @property
    def private(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def known_names(self) -> frozenset[str]:
        """The names by which a browser may call this server; any other comes from a page that wants to pose as it."""
        return frozenset(name.lower() for name in (*LOOPBACK, self.host, *self.names))

    @property
    def address(self) -> str:
        """Where the page is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def new_token() -> str:
    """A token that nobody guesses.

    Example:
        >>> len(new_token()) >= SHORTEST_TOKEN
        True
    """
    return secrets.token_urlsafe(18)
