"""Networks as names and contents, to be sent to other machines and back."""

import tempfile
import threading
from functools import lru_cache
from pathlib import Path

Parcel = tuple[tuple[str, bytes], ...]  # a network's files, by name
_ONE_AT_A_TIME = threading.Lock()


def packed(network: Path) -> Parcel:
    """The files of a network's folder."""
    files = sorted(path for path in network.iterdir() if path.is_file())
    return tuple((path.name, path.read_bytes()) for path in files)


def unpack(parcel: Parcel, network: Path) -> None:
    """Write a network's files into its folder, which is made. Names that lead elsewhere are refused."""
    network.mkdir(parents=True)
    for name, content in parcel:
        if name in ("", ".", "..") or Path(name).name != name:
            raise ValueError(f"a network's file is called {name!r}: a plain name is needed.")
        (network / name).write_bytes(content)


def unpacked(parcel: Parcel, name: str) -> tempfile.TemporaryDirectory[str]:
    """A folder of networks with this one in it; it is there as long as somebody holds it, and usually much longer."""
    with _ONE_AT_A_TIME:  # of two threads that need the same one, each would make it, and one folder would go at once
        return _unpacked(parcel, name)


@lru_cache(maxsize=64)
def _unpacked(parcel: Parcel, name: str) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="qgt-networks-")
    unpack(parcel, Path(folder.name) / name)
    return folder
