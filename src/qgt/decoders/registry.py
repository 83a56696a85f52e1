"""The decoders, one registry for all: what files, `qgt decode --decoder NAME` and the conformance tests go through.

`qgt.decoders` lists them. Their modules are imported here by name, each when its decoder is asked for, and must not
import this one.
"""

import types
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import final

from qgt.decoders import DECODER_CLASSES
from qgt.decoders.contract import Decoder
from qgt.files import codec
from qgt.model.problem import PARTS


def _class_at(path: str) -> type[Decoder]:
    module, _, name = path.rpartition(".")
    found: type[Decoder] = getattr(import_module(f"qgt.decoders.{module}"), name)
    return found


@final
class _Decoders(Mapping[str, type[Decoder]]):
    """The classes by name. A command that decodes with one of them need not wait for the modules of all."""

    def __getitem__(self, name: str) -> type[Decoder]:
        return _class_at(DECODER_CLASSES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(DECODER_CLASSES)

    def __len__(self) -> int:
        return len(DECODER_CLASSES)


DECODERS: Mapping[str, type[Decoder]] = _Decoders()
KINDS: codec.Kinds = {**PARTS, Decoder: DECODERS}


def make_decoder(kind: str, options: Mapping[str, str] = types.MappingProxyType({})) -> Decoder:
    """The decoder of a kind, ours or "file:Class" of a plugin, with some of its fields given as texts.

    Example:
        >>> made = make_decoder("certified", {"odds": "10", "certificates": "false"})
        >>> made.odds, made.certificates
        (10.0, False)
        >>> make_decoder("gamp", {"damping": "2"})
        Traceback (most recent call last):
        ValueError: gamp.damping=2.0 is not valid: give a number from 0 to 1.
    """
    decoder: object = codec.decode_options(kind, codec.class_of("decoder", kind, DECODERS), options, KINDS)
    if not isinstance(decoder, Decoder):
        raise ValueError(f"decoder={kind!r} is not a decoder: give it the methods supports and bind.")
    return decoder
