"""Networks as names and contents, to be sent to other machines and back."""

import tempfile
from functools import lru_cache
from pathlib import Path

Parcel = tuple[tuple[str, bytes], ...]  # a network's files, by name


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


@lru_cache(maxsize=64)
def unpacked(parcel: Parcel, name: str) -> tempfile.TemporaryDirectory[str]:
    """A folder of networks with this one in it, until the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="qgt-networks-")
    unpack(parcel, Path(folder.name) / name)
    return folder
