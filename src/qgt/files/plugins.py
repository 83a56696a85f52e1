"""Plugins: a user's own classes, by the names that files give them.

A plugin is one Python file that the user names, on the command line or in a call. A problem file or a study can then
name its dataclasses, as `kind = "file:Class"`: the file without its folder and its .py. To read a problem file never
imports anything: a kind that no loaded plugin has is an error.

Plugins belong to the whole process, as modules of Python do, because other processes find classes by their names. A
plugin is loaded once and never replaced, so that objects and source agree.
"""

import dataclasses
import hashlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_loaded: dict[str, "Plugin"] = {}
_lock = threading.RLock()  # a plugin may load another


@dataclass(frozen=True)
class Plugin:
    """A file that was loaded, and the dataclasses it defines.

    Example:
        >>> _ = Path("empty.py").write_text("from dataclasses import dataclass\\n@dataclass\\nclass Mine: pass\\n")
        >>> load_plugin("empty.py").kinds
        ('empty:Mine',)
    """

    name: str  # the file's, without folder and .py
    path: Path
    sha256: str  # of the source
    classes: Mapping[str, type]

    @property
    def kinds(self) -> tuple[str, ...]:
        """What its classes are called in files."""
        return tuple(f"{self.name}:{name}" for name in self.classes)


def load_plugin(path: str | Path) -> Plugin:
    """Run a Python file of yours, so that files may name its dataclasses; a second call changes nothing.

    A module of that name that Python has imported from the same file already is taken as it is.

    Example:
        >>> _ = Path("batches.py").write_text('''
        ... from dataclasses import dataclass
        ... import torch
        ...
        ... @dataclass(frozen=True)
        ... class OneBatch:
        ...     length: int
        ...
        ...     def sample(self, instances, items, *, generator):
        ...         start = torch.randint(items - self.length + 1, (instances, 1), generator=generator)
        ...         position = torch.arange(items)
        ...         return ((position >= start) & (position < start + self.length)).to(torch.uint8)
        ... ''')
        >>> plugin = load_plugin("batches.py")
        >>> plugin.kinds, plugin.classes["OneBatch"](4)
        (('batches:OneBatch',), OneBatch(length=4))
    """
    path = Path(path).resolve()
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); check the path of the plugin.") from error
    sha256 = hashlib.sha256(source).hexdigest()
    with _lock:
        known = _loaded.get(path.stem)
        if known is None:
            module = _imported(path)
            classes = _run(path, source) if module is None else _classes(path, module)
            known = _loaded[path.stem] = Plugin(path.stem, path, sha256, classes)
        if known.path != path:
            raise ValueError(f"{path}: a plugin of that name is loaded from {known.path}; rename one of them.")
        if known.sha256 != sha256:
            raise ValueError(f"{path}: has changed since it was loaded; start Python anew.")
        return known


def loaded_plugins() -> tuple[Plugin, ...]:
    """Every plugin of this process.

    Example:
        >>> all(isinstance(plugin, Plugin) for plugin in loaded_plugins())
        True
    """
    with _lock:
        return tuple(_loaded.values())


def load_same(plugins: Iterable[tuple[Path, str]]) -> None:
    """Load plugins in another process, each with the SHA-256 that it must have."""
    for path, sha256 in plugins:
        if load_plugin(path).sha256 != sha256:
            raise ValueError(f"{path}: has changed since the run began; start it anew.")


def class_named(where: str, kind: str) -> type:
    """The class that `kind`, "file:Class", means, or a ValueError that says how to load it."""
    name, _, cls = kind.partition(":")
    if name == "__main__" or "<locals>" in cls:
        raise ValueError(f"{where}={kind!r} cannot be found: move the class to the top of a file, and name that file.")
    with _lock:
        plugin = _loaded.get(name)
    if plugin is None:
        raise ValueError(f"{where}={kind!r} is not loaded: give --plugin {name}.py, or call qgt.load_plugin.")
    if cls not in plugin.classes:
        raise ValueError(f"{where}={kind!r} is not in {plugin.path}: give one of {', '.join(plugin.kinds)}.")
    return plugin.classes[cls]


def kind_named(cls: type) -> str:
    """What files call a class that is not ours: "file:Class"."""
    return f"{cls.__module__.rpartition('.')[2]}:{cls.__qualname__}"


def refuse_homeless(data: object) -> None:
    """Raise a ValueError where plain data names a class that no plugin file can have."""
    for kind in _own_kinds(data):
        name, _, cls = kind.partition(":")
        if name == "__main__" or "." in cls:
            raise ValueError(
                f"{kind} cannot be named in a file: move the class to the top of a Python file of its own."
            )


def sources(data: object) -> dict[str, str]:
    """The SHA-256 of every plugin that plain data names, by its name."""
    names = sorted({kind.partition(":")[0] for kind in _own_kinds(data)})
    with _lock:
        for name in names:
            if name not in _loaded:
                raise ValueError(f"{name} is not loaded: call qgt.load_plugin with its file.")
        return {name: _loaded[name].sha256 for name in names}


def _own_kinds(data: object) -> Iterator[str]:
    """Every `kind` with a colon in plain data."""
    if isinstance(data, Mapping):
        kind = data.get("kind")
        if isinstance(kind, str) and ":" in kind:
            yield kind
    if isinstance(data, Mapping | list | tuple):
        for value in data.values() if isinstance(data, Mapping) else data:
            yield from _own_kinds(value)


def _imported(path: Path) -> ModuleType | None:
    """The module that Python has imported from the file; a ValueError where its name means another module."""
    if not path.stem.isidentifier() or path.suffix != ".py":
        raise ValueError(f"{path}: is not a valid name for a plugin; use letters, digits and _, and .py at the end.")
    module = sys.modules.get(path.stem)
    if module is not None:
        taken = getattr(module, "__file__", None) or "built in"
    else:
        found = importlib.util.find_spec(path.stem)
        taken = None if found is None else found.origin  # None, too, for a folder of that name
    if taken is not None and Path(taken).resolve() != path:
        raise ValueError(f"{path}: Python has another module called {path.stem}; rename the file.")
    return module


def _classes(path: Path, module: ModuleType) -> dict[str, type]:
    """The dataclasses that a module defines itself."""
    found = {name: value for name, value in vars(module).items() if isinstance(value, type)}
    own = {name: cls for name, cls in found.items() if dataclasses.is_dataclass(cls) and cls.__module__ == path.stem}
    if not own:
        raise ValueError(f"{path}: defines no dataclass, so a file can name nothing in it; add one.")
    return own


def _run(path: Path, source: bytes) -> dict[str, type]:
    """The dataclasses of a file, run from the very bytes that were hashed."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # the name ends in .py
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)  # where dataclasses look it up
    try:
        _execute(path, source, module)
        return _classes(path, module)
    except BaseException:
        del sys.modules[path.stem]
        raise


def _execute(path: Path, source: bytes, module: ModuleType) -> None:
    """Run a module's code; what it raises is reported with the line of the file."""
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = f", line {lines[-1]}" if lines else ""
        raise ValueError(f"{path}{line}: {type(error).__name__}: {error}") from error
