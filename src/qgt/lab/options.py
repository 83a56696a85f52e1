"""A decoder's options as a command line or a form gives them: `damping=0.5`; `make_decoder` reads the values."""

from collections.abc import Mapping, Sequence

from qgt.decoders.neural.decoder import NeuralDecoder


def parse_settings(decoder: str, settings: Sequence[str]) -> dict[str, str]:
    """Names and texts from `name=value` or `decoder.name=value`.

    Example:
        >>> parse_settings("gamp", ["damping=0.5", "gamp.iterations=50"])
        {'damping': '0.5', 'iterations': '50'}
    """
    found: dict[str, str] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        owner, _, name = key.strip().rpartition(".")
        if not equals or not name:
            raise ValueError(f"set={setting!r} is not valid: give name=value, such as damping=0.5.")
        if owner not in ("", decoder):
            raise ValueError(f"set={setting!r} is for {owner}, but the decoder is {decoder}: choose one.")
        if name in found:
            raise ValueError(f"set={setting!r} gives {name} twice: give it once.")
        found[name] = text.strip()
    return found


def with_settings(net: NeuralDecoder, options: Mapping[str, str]) -> NeuralDecoder:
    """A network with the one option that it may have."""
    for name, text in options.items():
        if name != "rounds":
            raise ValueError(f"{name}={text} has no meaning for a network: leave it out, or give rounds.")
        if not text.isdecimal():
            raise ValueError(f"rounds={text!r} is not valid: give a whole number.")
        net = net.with_rounds(int(text))
    return net
