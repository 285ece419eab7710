"""Masks: rules on (batch, head, query, key). **True means visible**, everywhere.

| mask | a query sees |
|---|---|
| `causal()` | its own position and all before it; the last query sees every key |
| `window(keys=W, ahead=0)` | at most W keys, its own position among them |
| `dilated(keys=W, step=n)` | its own position and every n-th before it |
| `blocks(size, layout=None)` | its own block, or the blocks that a layout names |
| `prefix(n)` | the first n keys |
| `padding(lengths or booleans)` | the real keys of its batch item |
| `documents(ids)` | positions that have its id |
| `given(tensor)`, `rule(function)` | keys for which a boolean tensor or a function is True |

Combine masks with `&`, `|` and `~`; one operand may be a boolean tensor. `parse` reads a mask from text.

`mask` holds the base class and the algebra, `export` the conversion to arrays, tensors, torch's formats and drawings,
and each family of masks has its own module. `regard.attend` asks a mask which blocks of pairs are visible
(`Mask.states`) and computes only those.
"""

from regard.attention.masks.block_sparse import blocks
from regard.attention.masks.causal_and_window import causal, dilated, window
from regard.attention.masks.custom import given, rule
from regard.attention.masks.documents import documents
from regard.attention.masks.mask import Mask, as_mask
from regard.attention.masks.padding import padding
from regard.attention.masks.parse import parse
from regard.attention.masks.prefix import prefix

__all__ = [
    "Mask", "as_mask", "blocks", "causal", "dilated", "documents", "given", "padding", "parse", "prefix", "rule",
    "window",
]  # fmt: skip
