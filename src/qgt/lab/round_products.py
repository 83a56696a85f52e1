"""What decoded rounds leave behind: the files of a sheet, and the proofs of every plate with all its pools.

After a later round every instance has pools of its own, and so a problem of its own. A proof belongs to one problem and
to its counts. So the proofs of rounds are an archive with a folder for each problem: the problem, its counts, and the
proofs, as `qgt check` reads them. Proofs are made by decoding once more: the search that rates answers keeps none.
"""

import io
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from qgt.decoders.certificate_file import write_certificate
from qgt.decoders.certified.decoder import Certified
from qgt.files import documents, tables
from qgt.lab.following import DecodedRounds
from qgt.lab.products import HTML, account_products
from qgt.lab.report_pages import accounts_page
from qgt.lab.samples import Samples
from qgt.lab.wording import quoted
from qgt.model.problem import Problem
from qgt.rounds.history import History

PROOFS_OF_ROUNDS = "proofs.zip"
ODDS = 100.0  # answers that come close are at least 1/odds as probable
DATE = (1980, 1, 1, 0, 0, 0)  # of the files in an archive: equal rounds give equal archives
README = """Proofs of a run with several rounds, checked without the solver that made them.

Each folder holds a problem with the pools of all rounds, its counts and the proofs. In a folder:

    qgt check counts.csv --problem problem.toml --certificate proofs.safetensors

"""


def round_facts(found: DecodedRounds, rounds: int, decoder: str, fingerprint: str) -> dict[str, object]:
    """Decoded rounds as plain data, for JSON."""
    return {
        "decoder": decoder,
        "instances": len(found.accounts),
        "rounds": rounds,
        "tests": sum(history.problem.pools for history in found.histories),
        "fingerprint": fingerprint,
        "results": [
            {**one.plain, "rounds": list(history.rounds)}
            for one, history in zip(found.accounts, found.histories, strict=True)
        ],
    }


def round_products(
    found: DecodedRounds,
    *,
    title: str,
    plain: Mapping[str, object],
    facts: Mapping[str, object],
    seconds: float,
    samples: Samples | None = None,
) -> dict[str, bytes]:
    """The files of decoded rounds by their names: those of a sheet, with an archive of proofs.

    Args:
        found: What was decoded.
        title: The page's title.
        plain: What the JSON file holds, see `round_facts`.
        facts: What stands at the foot of the page.
        seconds: Time to prove each instance.
        samples: Where the samples stand, if that is known.
    """
    made = account_products(found.accounts, found.first.design, plain, samples)
    made[HTML] = rounds_page(found, title=title, facts=facts, samples=samples).encode()
    if (proofs := round_proofs(found, seconds=seconds)) is not None:
        made[PROOFS_OF_ROUNDS] = proofs
    return made


def rounds_page(
    found: DecodedRounds, *, title: str, facts: Mapping[str, object], samples: Samples | None = None
) -> str:
    """A page about decoded rounds, like that about a sheet."""
    measured = {name: (one.problem, one.y) for name, one in zip(found.names, found.histories, strict=True)}
    first, most = found.histories[0].rounds[0], max(len(one.rounds) for one in found.histories)
    later = sum(sum(one.rounds[1:]) for one in found.histories)
    where = f"counted in {first} pools"
    if later:
        where += f" and {later} more in {'a later round' if most == 2 else f'{most - 1} later rounds'}"
    return accounts_page(found.accounts, measured, where=where, title=title, facts=facts, samples=samples)


def round_proofs(found: DecodedRounds, *, seconds: float) -> bytes | None:
    """An archive of proofs; None where nothing can be proved, as the certified decoder does not take the prior."""
    groups: dict[int, list[int]] = {}
    for place, history in enumerate(found.histories):  # instances without later pools share one problem
        groups.setdefault(id(history.problem), []).append(place)
    if any(Certified().supports(found.histories[places[0]].problem) is not None for places in groups.values()):
        return None
    stream, words = io.BytesIO(), README
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, places in enumerate(groups.values(), 1):
            names = [found.names[place] for place in places]
            for name, content in _proved([found.histories[place] for place in places], names, seconds).items():
                archive.writestr(zipfile.ZipInfo(f"{number}/{name}", DATE), content)
            words += f"Folder {number}: {', '.join(map(quoted, names))}\n"
        archive.writestr(zipfile.ZipInfo("README.txt", DATE), words)
    return stream.getvalue()


def _proved(histories: Sequence[History], names: Sequence[str], seconds: float) -> dict[str, bytes]:
    """The files of one problem: what it is, the counts, and the proofs."""
    problem, y = histories[0].problem, torch.stack([history.y for history in histories])
    result = Certified(odds=ODDS, time_limit=seconds).bind(problem)(y)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_problem(folder, problem)
        _write_counts(folder / "counts.csv", problem, y, names)
        write_certificate(folder / "proofs.safetensors", problem=problem, y=y, result=result)
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _write_problem(folder: Path, problem: Problem) -> None:
    problem.design.write_csv(folder / "design.csv", form="lists")
    documents.save(folder / "problem.toml", {**problem.spec, "design": {"file": "design.csv"}})


def _write_counts(path: Path, problem: Problem, y: torch.Tensor, names: Sequence[str]) -> None:
    pools = problem.design.pool_names
    tables.write_table(path, y.tolist(), row_names=names, column_names=pools, corner="instance")
