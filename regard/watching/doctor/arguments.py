"""Reads the arguments of `seen.check`: padding masks, lengths and document numbers in the forms that users have them.

| padding | form |
|---|---|
| booleans (B, S) | True = real token |
| integers (B, S) | 1 = real, 0 = padding, as tokenizers return them |
| floats (B, S) | 1 = real, 0 = padding; or numbers to add to the scores: 0 = real, −inf or at most −1,000 = padding |
| integers (B,) | lengths: the first tokens of each item are real |
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

ADDED = -1e3  # a number this small, added to a score, hides the key


def select(argument: Any, name: str) -> Any:
    """Return the entry of a dict from patterns of module paths that fits a module, or the argument for all modules."""
    if not isinstance(argument, Mapping):
        return argument
    return next((value for pattern, value in argument.items() if fnmatchcase(name, pattern)), None)


def read_padding(padding: Any) -> Bool[Tensor, "batch keys"] | Int[Tensor, "batch"]:
    """Return the real keys as booleans, or the lengths as integers."""
    mask = _as_tensor(padding, "padding")
    if mask.dim() > 2:
        raise ValueError(
            f"padding must have one number per token, (B, S), or be lengths (B,), got shape {tuple(mask.shape)}; "
            "pass the attention_mask of the tokenizer, not the mask of pairs that the model makes of it"
        )
    if mask.dim() == 0:
        raise ValueError(f"padding must be a mask (B, S) or lengths (B,), got {padding!r}")
    if mask.dim() == 1:
        if mask.dtype == torch.bool:
            return mask[None]
        if mask.dtype.is_floating_point or bool((mask < 0).any()):
            raise ValueError(
                f"lengths must be integers from 0, got {mask.tolist()}; a mask of one item has shape (1, S)"
            )
        return mask.long()
    if mask.dtype == torch.bool:
        return mask
    if bool(((mask == 0) | (mask == 1)).all()):
        return mask != 0 if bool((mask == 1).any()) or not mask.dtype.is_floating_point else mask == 0
    if mask.dtype.is_floating_point and bool(((mask == 0) | (mask <= ADDED)).all()):
        return mask == 0
    raise ValueError(
        "padding must hold 1 for real tokens and 0 for padding, or 0 and −inf, "
        f"got values such as {mask.unique()[:4].tolist()}; token ids are compared first: padding=ids != pad_id"
    )


def real_keys(padding: Tensor, keys: int) -> Bool[Tensor, "batch keys"]:
    """Return which keys are real, for padding from `read_padding`; lengths describe all `keys`."""
    if padding.dim() == 2:
        return padding
    return torch.arange(keys, device=padding.device) < padding[:, None]


def read_documents(documents: Any) -> list[Int[Tensor, "keys"]]:
    """Return the document number of each token of each item, from numbers (B, S) or (S,), or from lists of lengths.

    Lists of different sizes, or whose sum is the number of tokens, are lengths; `documents_of` decides which.
    """
    if isinstance(documents, list | tuple) and documents and isinstance(documents[0], list | tuple | Tensor):
        rows = [_as_tensor(row, "documents") for row in documents]
    else:
        table = _as_tensor(documents, "documents")
        if table.dim() not in (1, 2):
            raise ValueError(
                "documents must be the number of each token's document, (B, S), or the lengths of the documents, "
                f"got shape {tuple(table.shape)}"
            )
        rows = list(table) if table.dim() == 2 else [table]
    for row in rows:
        if row.dtype.is_floating_point or row.dim() != 1:
            raise ValueError(f"documents must be integers, got {row.dtype} of shape {tuple(row.shape)}")
    return [row.long() for row in rows]


def documents_of(rows: list[Int[Tensor, "_"]], batch: int, keys: int) -> Int[Tensor, "batch keys"] | None:
    """Return the document number of each key, (B, S), or None if the documents do not fit the sizes of a call."""
    items = []
    for row in rows:
        if len(row) == keys:
            items.append(row)
        elif bool((row > 0).all()) and int(row.sum()) == keys:
            items.append(torch.repeat_interleave(torch.arange(len(row), device=row.device), row))
        else:
            return None
    if len(items) == 1:
        items = items * batch
    return torch.stack(items) if len(items) == batch else None


def _as_tensor(x: Any, name: str) -> Tensor:
    try:
        tensor = x.detach() if isinstance(x, Tensor) else torch.as_tensor(np.asarray(x))
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name} must be a tensor, an array or lists of equal length, got {type(x).__name__}"
        ) from error
    return tensor
