"""Plugins: a user's own classes in files, and nothing else of theirs."""

import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest
import torch

import qgt
from qgt.files import plugins
from qgt.files.plugins import load_plugin, loaded_plugins

pytestmark = pytest.mark.usefixtures("no_plugins")

MINE = """
from __future__ import annotations
from dataclasses import dataclass, field
import torch, qgt

@dataclass(frozen=True)
class Corner:
    "A place inside another part."
    at: tuple[int, ...] = ()

@dataclass(frozen=True)
class OneBatch:
    length: int
    shift: float | None = None
    weights: dict[str, float] = field(default_factory=dict)
    corner: Corner = Corner()

    def sample(self, instances, items, *, generator):
        start = torch.randint(items - self.length + 1, (instances, 1), generator=generator)
        position = torch.arange(items)
        return ((position >= start) & (position < start + self.length)).to(torch.uint8)

@dataclass(frozen=True)
class Silent:
    integer = True

    def reach(self, size, tail):
        return float(size)

    def sample(self, counts, sizes, *, generator):
        return counts * 0

    def log_prob(self, y, counts, sizes):
        return torch.zeros_like(y)

@dataclass(frozen=True)
class Useless:
    pass

@dataclass(frozen=True)
class Mixture:
    parts: tuple[qgt.Sampler, ...]

    def sample(self, instances, items, *, generator):
        return self.parts[0].sample(instances, items, generator=generator)
"""
DESIGN = qgt.Design.from_rows(["110", "011"])


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return load_plugin(path)


def problem(**prior):
    return {"design": {"matrix": ["110", "011"]}, "prior": {"kind": "mine:OneBatch", **prior}}


def test_a_part_of_ones_own_goes_through_files(mine, tmp_path):
    prior = mine.classes["OneBatch"](2, weights={"a": 0.5}, corner=mine.classes["Corner"]((1, 2)))
    one = qgt.Problem(DESIGN, prior, mine.classes["Silent"]())
    assert one.spec["prior"] == {"kind": "mine:OneBatch", "length": 2, "weights": {"a": 0.5}, "corner": {"at": [1, 2]}}
    assert one.spec["noise"] == {"kind": "mine:Silent"}
    for name in ("problem.toml", "problem.json"):
        one.save(tmp_path / name)
        again = qgt.Problem.load(tmp_path / name)
        assert (again.prior, again.noise) == (one.prior, one.noise)
        assert again.fingerprint == one.fingerprint
        assert torch.equal(
            again.simulate(5, generator=torch.Generator().manual_seed(1)).x,
            one.simulate(5, generator=torch.Generator().manual_seed(1)).x,
        )


def test_parts_inside_a_part_have_kinds_too(mine):
    one = qgt.Problem(DESIGN, mine.classes["Mixture"]((qgt.Bernoulli(0.5), mine.classes["OneBatch"](2))))
    assert [part["kind"] for part in one.spec["prior"]["parts"]] == ["bernoulli", "mine:OneBatch"]
    assert qgt.Problem.from_spec(one.spec).fingerprint == one.fingerprint
    spec = one.spec
    spec["prior"]["parts"][0]["rate"] = 2.0
    with pytest.raises(ValueError, match=r"^prior\.parts\[0\]\.rate=2\.0 is not valid: give a number from 0 to 1\.$"):
        qgt.Problem.from_spec(spec)


def test_what_is_loaded_is_told(mine, tmp_path):
    assert mine.kinds == ("mine:Corner", "mine:OneBatch", "mine:Silent", "mine:Useless", "mine:Mixture")
    assert loaded_plugins() == (mine,)
    assert load_plugin(tmp_path / "mine.py") is mine
    assert len(mine.sha256) == 64
    assert sys.modules["mine"].OneBatch is mine.classes["OneBatch"]


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        ({"kind": "other:OneBatch"}, "prior.kind='other:OneBatch' is not loaded: give --plugin other.py, or call"),
        ({"kind": "os:PathLike"}, "prior.kind='os:PathLike' is not loaded: give --plugin os.py"),
        ({"kind": "mine:Missing"}, "prior.kind='mine:Missing' is not in "),
        ({"kind": "mine:Useless"}, "prior.kind='mine:Useless' is not valid: give a Sampler."),
        ({"kind": "mine:dataclass"}, "prior.kind='mine:dataclass' is not in "),
        ({"kind": "__main__:Mine"}, "prior.kind='__main__:Mine' cannot be found: move the class to the top of a file"),
        ({}, "prior.length is missing: add it; the keys are corner, kind, length, shift, weights."),
        ({"length": "2"}, "prior.length='2' is not valid: give a whole number."),
        ({"length": 2, "corner": {"at": [1, "x"]}}, "prior.corner.at[1]='x' is not valid: give a whole number."),
        ({"length": 2, "corner": {"on": 1}}, "prior.corner.on is not a known key: use at."),
    ],
)
def test_what_is_wrong_is_named(mine, prior, said):
    with pytest.raises(ValueError) as caught:
        qgt.Problem.from_spec(problem(**prior))
    assert str(caught.value).startswith(said)


def test_a_file_that_is_read_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('sprung')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"is not loaded: give --plugin trap\.py"):
        qgt.Problem.from_spec({"design": {"matrix": ["1"]}, "prior": {"kind": "trap:Trap"}})
    assert "trap" not in sys.modules


@dataclass(frozen=True)
class Here:
    rate: float

    def sample(self, instances, items, *, generator):
        return torch.zeros(instances, items, dtype=torch.uint8)


def test_a_class_that_no_file_can_name_has_a_fingerprint_and_is_not_saved(tmp_path):
    @dataclass(frozen=True)
    class Inside:
        def sample(self, instances, items, *, generator):
            return torch.zeros(instances, items, dtype=torch.uint8)

    main = type("Mine", (), {"__module__": "__main__", "sample": Inside.sample})
    for prior in (Inside(), dataclass(frozen=True)(main)()):
        one = qgt.Problem(DESIGN, prior)
        assert len(one.fingerprint) == 64
        with pytest.raises(ValueError, match="cannot be named in a file: move the class to the top of a Python file"):
            one.save(tmp_path / "problem.toml")
    assert not list(tmp_path.iterdir())
    qgt.Problem(DESIGN, Here(0.5)).save(tmp_path / "problem.toml")
    assert 'kind = "test_plugins:Here"' in (tmp_path / "problem.toml").read_text()


def test_a_module_that_is_imported_already_is_taken(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    import mine

    assert load_plugin(tmp_path / "mine.py").classes["OneBatch"] is mine.OneBatch


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("json.py", MINE, "Python has another module called json; rename the file."),
        ("sys.py", MINE, "Python has another module called sys; rename the file."),
        ("colorsys.py", MINE, "Python has another module called colorsys; rename the file."),
        ("my-plugin.py", MINE, "is not a valid name for a plugin; use letters, digits and _, and .py at the end."),
        ("mine.txt", MINE, "is not a valid name for a plugin"),
        ("empty.py", "x = 1", "defines no dataclass, so a file can name nothing in it; add one."),
        ("borrowed.py", "from qgt import Bernoulli", "defines no dataclass"),
        ("broken.py", "x = 1\ny = undefined\n", "broken.py, line 2: NameError: name 'undefined' is not defined"),
        ("syntax.py", "x = = 1\n", "syntax.py: SyntaxError: "),
    ],
)
def test_a_file_that_is_no_plugin_is_refused_and_leaves_nothing(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    before = dict(sys.modules)
    with pytest.raises(ValueError) as caught:
        load_plugin(tmp_path / name)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert loaded_plugins() == ()
    assert sys.modules == before


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"absent\.py: cannot be read \(No such file .* check the path of the plugin"):
        load_plugin(tmp_path / "absent.py")


def test_a_plugin_is_never_replaced(mine, tmp_path):
    other = tmp_path / "folder" / "mine.py"
    other.parent.mkdir()
    other.write_text(MINE)
    with pytest.raises(ValueError, match=r"a plugin of that name is loaded from .*; rename one of them\."):
        load_plugin(other)
    mine.path.write_text(MINE + "\n")
    with pytest.raises(ValueError, match=r"mine\.py: has changed since it was loaded; start Python anew\."):
        load_plugin(mine.path)
    with pytest.raises(ValueError, match="has changed since"):
        plugins.load_same([(mine.path, mine.sha256)])
    assert loaded_plugins() == (mine,)


def test_sources_are_those_of_the_plugins_that_data_name(mine, tmp_path):
    (tmp_path / "more.py").write_text(MINE)
    more = load_plugin(tmp_path / "more.py")
    assert plugins.sources({"prior": {"kind": "bernoulli"}, "kind": 3}) == {}
    assert plugins.sources(problem()) == {"mine": mine.sha256}
    assert plugins.sources([problem(), {"a": [{"kind": "more:Silent"}]}]) == {"mine": mine.sha256, "more": more.sha256}
    with pytest.raises(ValueError, match="other is not loaded"):
        plugins.sources({"kind": "other:Mine"})


def test_threads_load_a_plugin_once(tmp_path):
    (tmp_path / "counted.py").write_text(
        f"import time, qgt\ntime.sleep(0.05)\n{MINE.replace('from __future__ import annotations', '')}"
    )
    found = []
    threads = [threading.Thread(target=lambda: found.append(load_plugin(tmp_path / "counted.py"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(plugin is found[0] for plugin in found)


def test_a_plugin_needs_no_import_of_its_folder(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    code = (
        "import sys; sys.path[:] = " + repr(sys.path) + "\n"
        "import qgt\n"
        f"print(qgt.load_plugin({str(tmp_path / 'mine.py')!r}).kinds[1])\n"
        "import mine; print(mine.OneBatch(3).length)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["mine:OneBatch", "3"]
    assert not (tmp_path / "__pycache__").exists()
