"""Masks as rules on (batch, head, query, key). **True means visible**, everywhere.

| rule | a query sees |
|---|---|
| `causal()` | its own place and what comes before; the last query sees every key |
| `window(keys=W, ahead=0)` | at most W keys, its own place among them |
| `dilated(keys=W, step=n)` | its own place and every n-th before it |
| `blocks(size, layout=None)` | its own block, or the blocks that a layout names |
| `prefix(n)` | the first n keys |
| `padding(lengths or booleans)` | the real keys of its batch item |
| `documents(ids)` | places with its own id |
| `given(tensor)`, `rule(function)` | what a boolean tensor or a function says |

Combine with `&`, `|`, `~`; a boolean tensor may stand on either side. `parse` reads them from text.
"""

from regard.attention.masks.bands import causal, dilated, window
from regard.attention.masks.blocks import blocks
from regard.attention.masks.custom import given, rule
from regard.attention.masks.documents import documents
from regard.attention.masks.mask import Mask, Moved, as_mask
from regard.attention.masks.padding import padding
from regard.attention.masks.parse import parse
from regard.attention.masks.prefix import prefix

__all__ = [
    "Mask",
    "Moved",
    "as_mask",
    "blocks",
    "causal",
    "dilated",
    "documents",
    "given",
    "padding",
    "parse",
    "prefix",
    "rule",
    "window",
]
