"""Plain data of one attention call: queries, keys, mask and bias, or the weights that an eager model computed.

Weights and statistics are computed from `CallInputs` by `exact_weights`, `score_blocks` and `statistics`. `Call` (in
`call`) adds the methods that users call.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention import Mask

PerQuery = Float[Tensor, "batch heads queries"]


@dataclass
class CallInputs:
    """What a reader extracts from one attention call."""

    name: str  # path of the module that made the call, "" for the model itself
    kernel: str  # the function that computed it
    shape: tuple[int, int, int, int]  # B, H, L, S
    scale: float
    queries: Tensor | Callable[[], tuple[Tensor, Tensor]] | None = None  # (B, H, L, d_k), or a function: (q, k)
    keys: Tensor | None = None  # (B, H_kv, S, d_k); None where `queries` is a function
    mask: Mask | None = None
    bias: Tensor | None = None  # added to the scores, broadcasts to (B, H, L, S)
    bias_is_mask: bool = False  # whether the bias holds only 0 and −inf
    eager_weights: Tensor | None = None  # (B, H, L, S), where the model itself computes them
    dropout: float = 0.0
    folded: bool = False  # whether batch and heads share the axis of the heads, and could not be separated
    versions: tuple[int, ...] = field(default=(), repr=False)

    @property
    def q(self) -> Float[Tensor, "batch heads queries d_k"]:
        """Queries, (B, H, L, d_k)."""
        self.check_unchanged()
        return self._q_and_k[0]

    @property
    def k(self) -> Float[Tensor, "batch kv_heads keys d_k"]:
        """Keys, (B, H_kv, S, d_k)."""
        self.check_unchanged()
        return self._q_and_k[1]

    @cached_property
    def _q_and_k(self) -> tuple[Tensor, Tensor]:
        if callable(self.queries):
            return self.queries()
        if self.queries is not None and self.keys is not None:
            return self.queries, self.keys
        if self.eager_weights is not None:
            raise ValueError(f"call {self.name!r} is eager attention: its weights are known, its queries and keys not")
        raise ValueError(
            f"call {self.name!r} was watched with keep='statistics', which stores no queries and keys; "
            "watch with keep='inputs' to compute weights afterwards"
        )

    def separate(self, sizes: tuple[int, int], heads_first: bool) -> None:
        """Separate batch and heads, which share the axis of the heads; `heads_first` if the heads vary slowest."""
        (batch, heads), folded = sizes, self.shape[1]

        def separate(x: Tensor | None) -> Tensor | None:
            if x is None or x.dim() < 3 or x.shape[:2] != (1, folded):
                return x
            return x[0].unflatten(0, (heads, batch)).transpose(0, 1) if heads_first else x[0].unflatten(0, sizes)

        self.shape = (batch, heads, *self.shape[2:])
        if isinstance(self.queries, Tensor):
            self.queries = separate(self.queries)
        self.keys, self.bias, self.eager_weights = map(separate, (self.keys, self.bias, self.eager_weights))
        self.__dict__.pop("_q_and_k", None)

    def check_unchanged(self) -> None:
        """Raise RuntimeError if a tensor of the call was changed in place after the call."""
        tensors = [x for x in (self.queries, self.keys, self.eager_weights) if isinstance(x, Tensor)]
        if self.versions and tensor_versions(*tensors) != self.versions:
            raise RuntimeError(
                f"the tensors of call {self.name!r} were changed in place after the call (by a cache or an optimizer "
                "step, for example), so its weights are no longer known; watch with keep='statistics' or keep='copies'"
            )

    def visible(self, batch: int) -> Bool[Tensor, "heads queries keys"]:
        """Return which keys each query of a batch item may attend to, (H, L, S); for short sequences."""
        _, heads, length, size = self.shape
        visible = torch.ones(1, 1, 1, dtype=torch.bool)
        if self.mask is not None:
            query, head = torch.arange(size - length, size)[:, None], torch.arange(heads)[:, None, None]
            visible = self.mask.visible(torch.tensor(batch), head, query, torch.arange(size))
        if self.bias is not None:
            bias = self.bias.expand(-1, -1, length, size)[batch if len(self.bias) > 1 else 0]
            visible = visible & ~bias.isneginf()
        return visible.expand(heads, length, size)


def tensor_versions(*tensors: Tensor) -> tuple[int, ...]:
    """Return how often each tensor was changed in place; −1 for inference tensors, which have no such counter."""
    return tuple(-1 if x.is_inference() else x._version for x in tensors)


def storage_id(x: Tensor) -> int | None:
    """Return what identifies the memory of a tensor; None if it has none of its own (nested, sparse)."""
    try:
        return x.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return None
