"""What is written after: rows of token ids, read from whatever they are given as."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.recurrent import Recurrent
from regard.models.transformer.decoder import Decoder
from regard.models.transformer.seq2seq import Seq2Seq


@dataclass(frozen=True)
class Prompt:
    """Token ids (B, L), the real ones first, and how many of each row are real (None when all are)."""

    tokens: Tensor
    lengths: Tensor | None

    @property
    def batch(self) -> int:
        return self.tokens.shape[0]

    def at_the_end(self) -> tuple[Tensor, Tensor | None]:
        """The same with the real tokens last, and how many places before them are empty."""
        if self.lengths is None:
            return self.tokens, None
        width = self.tokens.shape[1]
        before = width - self.lengths
        index = (torch.arange(width, device=self.tokens.device) - before[:, None]) % width
        return self.tokens.gather(1, index), before


def read_prompt(name: str, given: Any, lengths: Tensor | None, device: torch.device) -> Prompt:
    """Rows of token ids from a tensor (B, L) or (L,), a list of numbers, or rows of different lengths."""
    rows = given if isinstance(given, Tensor) else _rows(name, given)
    if isinstance(rows, Tensor):
        tokens = rows[None] if rows.dim() == 1 else rows
        if tokens.dim() != 2 or tokens.dtype not in (torch.int32, torch.int64):
            raise ValueError(
                f"{name} must be token ids of shape (B, L) or (L,), got {rows.dtype} of shape {tuple(rows.shape)}"
            )
        counts = [tokens.shape[1]] * tokens.shape[0] if lengths is None else [int(n) for n in lengths]
        if len(counts) != tokens.shape[0] or any(not 0 <= n <= tokens.shape[1] for n in counts):
            raise ValueError(
                f"lengths of {name} must be {tokens.shape[0]} whole numbers in 0 … {tokens.shape[1]}, got {counts}"
            )
    else:
        if lengths is not None:
            raise ValueError(f"lengths are for a {name} of shape (B, L); rows of a list have their own")
        counts = [len(row) for row in rows]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True) if rows else torch.empty(0, 0, dtype=torch.int64)
    if any(n == 0 for n in counts):
        raise ValueError(
            f"row {counts.index(0)} of {name} is empty; give each at least one token, such as a start token"
        )
    longest = max(counts, default=0)
    same = all(n == longest for n in counts)
    return Prompt(tokens[:, :longest].to(device, torch.int64), None if same else torch.tensor(counts, device=device))


def _rows(name: str, given: Sequence[Any]) -> Tensor | list[Tensor]:
    try:
        if not len(given) or not hasattr(given[0], "__len__"):
            row = torch.as_tensor(given)
            return row if len(given) else row.to(torch.int64)
        found = [torch.as_tensor(row) for row in given]
    except (TypeError, ValueError):
        found = []
    if not found or any(row.dim() != 1 or (len(row) and row.dtype.is_floating_point) for row in found):
        raise TypeError(
            f"{name} must be token ids: a tensor (B, L), a list of numbers, or a list of rows; got {given!r}"
        )
    return [row.to(torch.int64) for row in found]


def read_stop(stop: int | Collection[int] | None) -> frozenset[int]:
    if stop is None:
        return frozenset()
    return frozenset((stop,) if isinstance(stop, int) else (int(token) for token in stop))


def check_model(model: nn.Module, has_source: bool) -> None:
    if not isinstance(model, Decoder | Seq2Seq | Recurrent):
        raise TypeError(f"only Decoder, Seq2Seq and Recurrent write, got {type(model).__name__}")
    name = type(model).__name__
    if isinstance(model, Decoder) and has_source:
        raise ValueError("a Decoder has no source; put the text it goes on from into the prompt")
    if not isinstance(model, Decoder) and not has_source:
        raise ValueError(f"{name} writes from a source; give source=…, and as prompt the start of the target")
