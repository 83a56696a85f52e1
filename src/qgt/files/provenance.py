"""What a result says about where it was made, the same for models, studies and benchmarks."""

import platform

import torch

from qgt.version import __version__


def provenance(device: torch.device | str) -> dict[str, str | int]:
    """The device's name, the threads, and the versions of what computed: plain data.

    Example:
        >>> sorted(provenance("cpu"))
        ['device', 'python', 'qgt', 'threads', 'torch']
    """
    device = torch.device(device)
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__.split("+")[0],  # without the build's suffix
        "qgt": __version__,
        "python": platform.python_version(),
    }
