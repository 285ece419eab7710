"""Plain data of one attention call: queries, keys, masks and biases, or the weights that an eager model computed.

Weights and statistics are computed from `CallInputs` by `exact_weights`, `score_blocks` and `statistics`. `Call` (in
`call`) adds the methods that users call.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention import Mask
from regard.attention.kernels.additive_mask import BiasRule
from regard.watching.written_rows import WriteLog

PerQuery = Float[Tensor, "batch heads queries"]
LazyTensor = Tensor | Callable[[], Tensor] | None
ScoreFunction = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]  # of score, batch, head, query, key


OF_WEIGHTS = ("queries", "keys", "boolean_mask", "bias", "sinks", "eager_weights")  # tensors that determine weights
TENSORS = (*OF_WEIGHTS, "values", "outputs")


@dataclass
class CallInputs:
    """What a reader extracts from one attention call. Tensors may be given by functions that compute them."""

    name: str  # path of the module that made the call, "" for the model itself
    kernel: str  # the function that computed it
    shape: tuple[int, int, int, int]  # B, H, L, S
    scale: float | None  # None: not known (eager attention)
    queries: LazyTensor = None  # (B, H, L, d_k)
    keys: LazyTensor = None  # (B, H_kv, S, d_k)
    values: LazyTensor = None  # (B, H_kv, S, d_v)
    outputs: LazyTensor = None  # (B, H, L, d_v), before the output projection
    mask: Mask | None = None
    boolean_mask: Bool[Tensor, "#batch #heads #queries #keys"] | None = None  # True = visible
    bias: Float[Tensor, "#batch #heads #queries #keys"] | None = None  # added to the scores
    bias_rule: BiasRule | None = None  # a bias that is computed, as ALiBi
    softcap: float = 0.0  # c > 0: scores s become c · tanh(s / c) before bias and masks
    score_function: ScoreFunction | None = None  # changes scores after bias and softcap (flex_attention)
    sinks: Float[Tensor, "#batch #heads #queries"] | None = None  # logits in the denominator that belong to no key
    eager_weights: Float[Tensor, "batch heads queries keys"] | None = None  # where the model itself computes them
    edits: tuple[Any, ...] = ()  # how `regard.intervene` changed the weights: `WeightEdit`s, in order
    score_width: int | None = None  # features over which an eager model multiplied queries and keys, if known
    score_bias: bool = False  # whether an eager model added numbers to unscaled scores, as T5
    dropout: float = 0.0
    cross: bool = False  # whether the keys come from another sequence than the queries
    cached: bool = False  # whether the keys come from a cache that holds earlier tokens
    step: int = 0  # number of earlier calls of the same module in this recording
    folded: bool = False  # whether batch and heads share the axis of the heads, and could not be separated
    query_positions: Int[Tensor, "queries"] | Int[Tensor, "batch queries"] | None = None  # see `positions`
    positions_searched: bool = False  # whether `query_positions` is final
    write_logs: dict[str, WriteLog] = field(default_factory=dict, repr=False)  # later writes into keys and values
    versions: dict[str, int] = field(default_factory=dict, repr=False)
    computed: dict[str, Tensor] = field(default_factory=dict, repr=False)  # results of functions that give tensors
    live: "CallInputs | None" = field(default=None, repr=False)  # the call with its tensors in the graph of gradients
    gradient: Any = field(default=None, repr=False)  # of a live call: an `attribution.live_calls.OutputGradient`
    output_gradients: LazyTensor = field(default=None, repr=False)  # its gradient, while a backward pass runs

    @property
    def q(self) -> Float[Tensor, "batch heads queries d_k"]:
        """Queries, (B, H, L, d_k)."""
        return self.tensor("queries")

    @property
    def k(self) -> Float[Tensor, "batch kv_heads keys d_k"]:
        """Keys, (B, H_kv, S, d_k)."""
        return self.tensor("keys")

    @property
    def v(self) -> Float[Tensor, "batch kv_heads keys d_v"]:
        """Values, (B, H_kv, S, d_v)."""
        return self.tensor("values")

    def tensor(self, name: str) -> Tensor:
        """Return a tensor of the call; raise an error if it is not known, or was changed in place."""
        x = getattr(self, name)
        if x is None:
            self._raise_unknown(name)
        if callable(x):
            if name not in self.computed:
                self.computed[name] = x()
            return self.computed[name]
        self.check_unchanged((name,))
        return x

    def _raise_unknown(self, name: str) -> NoReturn:
        if self.eager_weights is not None:
            raise ValueError(
                f"call {self.name!r} is eager attention: its weights are known, its {name} not; "
                "run the model on fused attention (attn_implementation='sdpa') to read them"
            )
        raise ValueError(
            f"call {self.name!r} was watched with keep='statistics', which stores no {name}; "
            "watch with keep='inputs' to compute weights afterwards"
        )

    @property
    def factor(self) -> float:
        """The factor of the scores, for calls whose queries and keys are known."""
        if self.scale is None:
            self._raise_unknown("scale")
        return self.scale

    @property
    def like(self) -> Tensor:
        """A tensor on the device of the call."""
        return self.eager_weights if self.eager_weights is not None else self.q

    def remember_versions(self, versions: dict[str, int] | None = None) -> None:
        """Remember how often each tensor was changed in place, to detect later changes; `versions` if it is known."""
        if versions is None:
            fields = vars(self)
            versions = {name: version for name in TENSORS if (version := _version(fields[name])) is not None}
        self.versions = versions
        if self.mask is not None:
            self.versions |= {f"mask {i}": _version(x) or 0 for i, x in enumerate(mask_tensors(self.mask))}

    def check_unchanged(self, names: tuple[str, ...] = OF_WEIGHTS) -> None:
        """Raise RuntimeError if a tensor of the call was changed in place after the call."""
        changed = [name for name in names if self._was_changed(name)]
        if names is OF_WEIGHTS:
            tensors = enumerate(mask_tensors(self.mask))
            changed += ["mask" for i, x in tensors if self.versions.get(f"mask {i}") not in (None, _version(x))]
        if changed:
            raise RuntimeError(
                f"tensors of call {self.name!r} ({', '.join(changed)}) were changed in place after the call (by a "
                "cache or an optimizer step, for example), so its weights are no longer known; "
                "watch with keep='statistics' or keep='copies'"
            )

    def _was_changed(self, name: str) -> bool:
        since, now = self.versions.get(name), _version(getattr(self, name))
        if since is None or now is None or since == now:
            return False
        log = self.write_logs.get(name)
        return log is None or not log.keeps(getattr(self, name), self.rows_seen(), since, now)

    def rows_seen(self) -> int:
        """Return the number of rows of the keys up to the last one that a query may see."""
        return self.shape[3]

    def detach(self) -> None:
        """Detach every tensor from the graph of gradients."""
        for name in TENSORS:
            x = getattr(self, name)
            if isinstance(x, Tensor):
                setattr(self, name, x.detach())

    def map_tensors(self, change: Callable[[str, Tensor], Tensor]) -> None:
        """Replace each tensor by change(name, tensor); functions that give tensors are called."""
        for name in TENSORS:
            x = getattr(self, name)
            if x is not None:
                setattr(self, name, change(name, x() if callable(x) else x))
        self.versions = {}

    def separate(self, sizes: tuple[int, int], heads_first: bool) -> None:
        """Separate batch and heads, which share the axis of the heads; `heads_first` if the heads vary slowest."""
        (batch, heads), shared = sizes, self.shape[1]

        def separate(x: Any) -> Any:
            if callable(x):
                return lambda: separate(x())
            if x is None or x.dim() < 3 or x.shape[:2] != (1, shared):
                return x
            return x[0].unflatten(0, (heads, batch)).transpose(0, 1) if heads_first else x[0].unflatten(0, sizes)

        self.shape = (batch, heads, *self.shape[2:])
        for name in (*TENSORS, "output_gradients"):
            setattr(self, name, separate(getattr(self, name)))
        self.computed.clear()
        self.separate_statistics(separate)
        if self.live is not None:
            self.live.separate(sizes, heads_first)

    def separate_statistics(self, separate: Callable[[Any], Any]) -> None:
        """Apply `separate` to stored statistics, if the class has them."""

    def visible(self, batch: int) -> Bool[Tensor, "heads queries keys"]:
        """Return which keys each query of a batch item may attend to, (H, L, S); for short sequences."""
        _, heads, length, size = self.shape
        device = self.like.device
        visible = torch.ones(1, 1, 1, dtype=torch.bool, device=device)
        if self.mask is not None:
            query = torch.arange(size - length, size, device=device)[:, None]
            head = torch.arange(heads, device=device)[:, None, None]
            keys = torch.arange(size, device=device)
            # An index without dimensions would be read on the host.
            item = torch.arange(batch, batch + 1, device=device)[:, None, None]
            visible = self.mask.visible(item, head, query, keys)
        for table in (self.boolean_mask, None if self.bias is None else ~self.bias.isneginf()):
            if table is not None:
                visible = visible & table[batch if len(table) > 1 else 0]
        return visible.expand(heads, length, size)


def mask_tensors(mask: Any) -> Iterator[Tensor]:
    """Yield the tensors that a mask and its parts hold."""
    if isinstance(mask, Tensor):
        yield mask
    elif isinstance(mask, tuple | list):
        for part in mask:
            yield from mask_tensors(part)
    elif isinstance(mask, Mask):
        for part in vars(mask).values():
            yield from mask_tensors(part)


def _version(x: Any) -> int | None:
    """Return how often a tensor was changed in place; None for what has no such counter (inference tensors)."""
    return x._version if isinstance(x, Tensor) and not x.is_inference() else None


def tensor_versions(*tensors: Tensor | None) -> tuple[int | None, ...]:
    """Return how often each tensor was changed in place."""
    return tuple(map(_version, tensors))


def storage_id(x: Tensor) -> int | None:
    """Return what identifies the memory of a tensor; None if it has none of its own (nested, sparse)."""
    try:
        return x.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return None
