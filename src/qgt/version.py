"""The version, and what a result says about where it was made: the same for models, studies and benchmarks.

A module of its own, so that nothing needs to import the roof to know the version. torch is imported on use.
"""

import platform
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__version__ = "1.0.0"


def provenance(device: "torch.device | str") -> dict[str, str | int]:
    """The device's name, the threads, and the versions of what computed: plain data.

    Example:
        >>> sorted(provenance("cpu"))
        ['device', 'python', 'qgt', 'threads', 'torch']
    """
    import torch

    device = torch.device(device)
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} CPU",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__.split("+")[0],  # without the build's suffix
        "qgt": __version__,
        "python": platform.python_version(),
    }
