"""A shelf: what was made last and can be made again, kept in memory while somebody looks at it."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


@dataclass(frozen=True, eq=False)
class Shelf(Generic[Thing]):
    """So many things by their names; those not used for longest make room for new ones.

    Example:
        >>> shelf = Shelf(most=1)
        >>> shelf.put("a", 1)
        >>> shelf.put("b", 2)
        >>> shelf.get("a"), shelf.get("b")
        (None, 2)
    """

    most: int
    _kept: OrderedDict[str, Thing] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, name: str) -> Thing | None:
        """What lies there; None where it is gone."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def put(self, name: str, thing: Thing) -> None:
        """Put something there, in the place of what had its name."""
        with self._lock:
            self._kept.pop(name, None)
            self._kept[name] = thing
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
