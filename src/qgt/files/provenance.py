"""Where a result was measured, and with which versions: what every stored result says of itself."""

import platform
import time

import torch

from qgt.version import __version__


def provenance(device: str | torch.device) -> dict[str, object]:
    """The machine, its threads, the versions and the day, as plain data.

    Example:
        >>> sorted(provenance("cpu"))
        ['date', 'device', 'threads', 'versions']
    """
    cuda = torch.device(device).type == "cuda"
    release = torch.__version__.split("+")[0]  # without the build's suffix
    return {
        "device": torch.cuda.get_device_name(device) if cuda else f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "versions": {"qgt": __version__, "torch": release, "python": platform.python_version()},
        "date": time.strftime("%Y-%m-%d"),
    }
