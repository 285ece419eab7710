"""Prompts: rows of token ids, read from tensors, lists, or rows of different lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.models.recurrent import Recurrent
from regard.models.transformer.decoder import Decoder
from regard.models.transformer.seq2seq import Seq2Seq


@dataclass(frozen=True)
class Prompt:
    """Token ids (B, L), padded at the end, and the number of real tokens in each row (None when no row is padded)."""

    tokens: Tensor
    lengths: Tensor | None

    @property
    def batch(self) -> int:
        return self.tokens.shape[0]

    def align_right(self) -> tuple[Tensor, Tensor | None]:
        """Return the tokens padded at the beginning instead of the end, and the number of padded places of each row."""
        if self.lengths is None:
            return self.tokens, None
        width = self.tokens.shape[1]
        before = width - self.lengths
        index = (torch.arange(width, device=self.tokens.device) - before[:, None]) % width
        return self.tokens.gather(1, index), before


def read_prompt(name: str, data: Any, lengths: Tensor | None, device: torch.device) -> Prompt:
    """Convert a tensor (B, L) or (L,), a list of token ids or a list of rows to a prompt; errors call it `name`."""
    rows = data if isinstance(data, Tensor) else _read_rows(name, data)
    if isinstance(rows, Tensor):
        tokens = rows[None] if rows.dim() == 1 else rows
        if tokens.dim() != 2 or tokens.dtype not in (torch.int32, torch.int64):
            raise ValueError(f"{name} must be token ids (B, L) or (L,), got {rows.dtype} of shape {tuple(rows.shape)}")
        batch, width = tokens.shape
        counts = [width] * batch if lengths is None else [int(n) for n in lengths]
        if len(counts) != batch or any(not 0 <= n <= width for n in counts):
            raise ValueError(f"lengths of {name} must be {batch} whole numbers in 0 … {width}, got {counts}")
    else:
        if lengths is not None:
            raise ValueError(f"lengths need a {name} of shape (B, L); the rows of a list have their own lengths")
        counts = [len(row) for row in rows]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True) if rows else torch.empty(0, 0, dtype=torch.int64)
    if any(n == 0 for n in counts):
        raise ValueError(f"row {counts.index(0)} of {name} is empty; every row needs a token, such as a start token")
    longest = max(counts, default=0)
    same = all(n == longest for n in counts)
    return Prompt(tokens[:, :longest].to(device, torch.int64), None if same else torch.tensor(counts, device=device))


def _read_rows(name: str, data: Sequence[Any]) -> Tensor | list[Tensor]:
    try:
        if not len(data) or not hasattr(data[0], "__len__"):
            row = torch.as_tensor(data)
            return row if len(data) else row.to(torch.int64)
        rows = [torch.as_tensor(row) for row in data]
    except (TypeError, ValueError):
        rows = []
    if not rows or any(row.dim() != 1 or (len(row) and row.dtype.is_floating_point) for row in rows):
        raise TypeError(f"{name} must be token ids: a tensor (B, L), a list of numbers or of rows; got {data!r}")
    return [row.to(torch.int64) for row in rows]


def check_model(model: nn.Module, has_source: bool) -> None:
    """Raise unless the model can generate, with a source if it needs one."""
    name = type(model).__name__
    if not isinstance(model, Decoder | Seq2Seq | Recurrent):
        raise TypeError(f"only Decoder, Seq2Seq and Recurrent can generate, got {name}")
    if isinstance(model, Decoder) and has_source:
        raise ValueError("a Decoder has no source; pass the text to continue as the prompt")
    if not isinstance(model, Decoder) and not has_source:
        raise ValueError(f"{name} needs a source; pass source=… and the start of the target as the prompt")
