"""The decoders, one registry for all: what files, `qgt decode --decoder NAME` and the conformance tests go through.

`names.py` lists them. Their modules are imported here by name, and must not import this one.
"""

import types
from collections.abc import Mapping
from importlib import import_module

from qgt.decoders.contract import Decoder
from qgt.decoders.names import DECODER_CLASSES
from qgt.files import codec
from qgt.model.problem import PARTS


def _class_at(path: str) -> type[Decoder]:
    module, _, name = path.rpartition(".")
    found: type[Decoder] = getattr(import_module(f"qgt.decoders.{module}"), name)
    return found


DECODERS: dict[str, type[Decoder]] = {name: _class_at(path) for name, path in DECODER_CLASSES.items()}
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
