"""All formats of worklists by name, and all their files at once."""

from collections.abc import Callable, Mapping, Sequence

from qgt.lab.worklists import biomek, echo, epmotion, generic, hamilton, mosquito, opentrons, tecan
from qgt.lab.worklists.moves import Moves

Write = Callable[[Moves], dict[str, str]]  # names of files and their texts
FORMATS: Mapping[str, Write] = {
    "generic": generic.files,
    "tecan": tecan.files,
    "opentrons": opentrons.files,
    "hamilton": hamilton.files,
    "biomek": biomek.files,
    "epmotion": epmotion.files,
    "echo": echo.files,
    "mosquito": mosquito.files,
}


def worklist_files(made: Moves, formats: Sequence[str] | None = None) -> dict[str, str]:
    """The files of some formats, or of all, each with the design's check code in its name.

    Example:
        >>> from qgt import Design
        >>> from qgt.lab.samples import Samples
        >>> from qgt.lab.worklists.moves import moves_of
        >>> samples = Samples.numbered(3)
        >>> made = moves_of(Design.from_rows(["110", "011"], item_names=samples.names), samples, 10.0)
        >>> list(worklist_files(made, ["tecan", "echo"]))
        ['tecan-5Q6HV5.gwl', 'echo-5Q6HV5.csv']
    """
    texts: dict[str, str] = {}
    for name in FORMATS if formats is None else formats:
        if name not in FORMATS:
            raise ValueError(f"worklist={name!r} is not known: give one of {', '.join(FORMATS)}.")
        for file, text in FORMATS[name](made).items():
            stem, dot, ending = file.rpartition(".")
            texts[f"{stem}-{made.code}{dot}{ending}"] = text
    return texts
