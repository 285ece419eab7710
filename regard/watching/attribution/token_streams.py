"""Which tokens the queries and the keys of a call are: the model's own tokens, or those of the source.

Attention is followed through the layers, so all calls of a stream of tokens must have the same tokens.
"""

import re
from collections.abc import Sequence

from regard.watching.call import Call

SOURCE = "source"


def stream_names(calls: Sequence[Call], purpose: str) -> list[tuple[str, str]]:
    """Return the streams of queries and keys of each call: "" or "source", that of the keys of cross-attention.

    In a model with cross-attention, self-attention belongs to the source unless its module is in the same stack of
    layers as a module with cross-attention.
    """
    decoders = {_stack(call.name) for call in calls if call.cross}
    names = [
        ("", SOURCE) if call.cross else ("", "") if not decoders or _stack(call.name) in decoders else (SOURCE, SOURCE)
        for call in calls
    ]
    sizes: dict[str, tuple[Call, tuple[int, int]]] = {}
    for call, (own, keys) in zip(calls, names, strict=True):
        batch, _, length, size = call.shape
        if call.folded:
            raise ValueError(f"{purpose}: call {call.name!r} holds batch and heads in one axis; run a batch of 1")
        for stream, count in ((own, length), (keys, size)):
            other, expected = sizes.setdefault(stream, (call, (batch, count)))
            if expected != (batch, count):
                raise ValueError(
                    f"{purpose} follows the same tokens through all layers, but call {other.name!r} has "
                    f"{expected[1]} tokens (batch {expected[0]}) and call {call.name!r} has {count} (batch {batch}); "
                    "run the model once on the whole text, without a cache, and watch with only= the layers that "
                    "attend to the same tokens"
                )
    return names


def _stack(name: str) -> str:
    """Return the part of a module's path before the number of its layer."""
    return re.split(r"(?:^|\.)\d+(?:\.|$)", name, maxsplit=1)[0]
