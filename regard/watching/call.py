"""One attention call, as it was made: who made it, with what, and everything that can be asked of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention import Mask
from regard.watching import weights as exact
from regard.watching import weights_at as places
from regard.watching.statistics import fused as compute
from regard.watching.statistics.fused import Statistics
from regard.watching.weights import Part

Pick = int | slice | list[int] | None


@dataclass
class Call:
    """A recorded call. Weights are per head, exact, and only as large as the part asked for.

    >>> import regard, torch
    >>> layer = regard.nn.MultiHeadAttention(16, 2, causal=True)
    >>> with regard.watch(layer) as seen:
    ...     _ = layer(torch.randn(1, 5, 16))
    >>> call = seen.calls[0]
    >>> call.shape                                      # batch, heads, queries, keys
    (1, 2, 5, 5)
    >>> call.weights(head=0, queries=0)                 # the first token sees itself alone
    tensor([[1., 0., 0., 0., 0.]])
    """

    name: str  # path of the module that made the call, "" for the model itself
    kernel: str  # what computed it
    shape: tuple[int, int, int, int]  # B, H, L, S
    scale: float
    queries: Any = None  # q (B, H, L, d_k): a tensor, or a function that makes it
    keys: Any = None  # k (B, H_kv, S, d_k), likewise
    rule: Mask | None = None  # what hides, as a rule
    added: Tensor | None = None  # what is added to the scores, broadcasting to (B, H, L, S)
    added_is_mask: bool = False  # whether that is 0 and −inf only
    maps: Tensor | None = None  # the weights, where the model itself made them (eager attention)
    dropout: float = 0.0
    kept: Statistics | None = None
    versions: tuple[int, ...] = field(default=(), repr=False)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor]:
        if self.queries is None or self.keys is None:
            if self.maps is not None:
                raise ValueError(f"call {self.name!r}: eager attention shows its weights, not its queries and keys")
            raise ValueError(
                f"call {self.name!r} was watched with keep='statistics', which holds no queries and keys; "
                "watch with keep='inputs' to ask for weights afterwards"
            )
        if callable(self.queries):
            return self.queries()
        return self.queries, self.keys

    def _unchanged(self) -> None:
        held = [x for x in (self.queries, self.keys, self.maps) if isinstance(x, Tensor)]
        if self.versions and versions_of(*held) != self.versions:
            raise RuntimeError(
                f"the tensors of call {self.name!r} were changed in place after it was made (a cache, an optimiser "
                "step?), so its weights are no longer known; watch with keep='statistics' or keep='copies'"
            )

    @property
    def q(self) -> Float[Tensor, "b h l d"]:
        """The queries (B, H, L, d_k)."""
        self._unchanged()
        return self._tensors[0]

    @property
    def k(self) -> Float[Tensor, "b g s d"]:
        """The keys (B, H_kv, S, d_k)."""
        self._unchanged()
        return self._tensors[1]

    # -- exact weights -----------------------------------------------------------------------------------

    def weights(
        self, *, head: Pick = None, queries: Pick = None, keys: Pick = None, batch: Pick = None
    ) -> Float[Tensor, "..."]:
        """The weights (B, H, L, S), or the part asked for; a single index drops its dimension."""
        batch_n, heads, length, size = self.shape
        b = _indices("batch", batch, batch_n)
        h = _indices("head", head, heads)
        i = _indices("queries", queries, length)
        j = _indices("keys", keys, size)
        found = torch.cat(
            [exact.chosen(self, b, h, rows)[..., j] for rows in i.split(max(1, 2**22 // max(1, size)))], -2
        )
        for dim, asked in reversed(list(enumerate((batch, head, queries, keys)))):
            found = found.squeeze(dim) if isinstance(asked, int) else found
        return found

    def parts(self) -> Iterator[Part]:
        """Every visible weight once, in parts of at most 16 MB that share a buffer: use one, then ask for the next."""
        return exact.parts(self)

    def rows(self, rows: slice) -> Float[Tensor, "b h rows s"]:
        """The weights of some queries, of every batch item and head."""
        part = torch.arange(*rows.indices(self.shape[2]))
        return exact.chosen(self, torch.arange(self.shape[0]), torch.arange(self.shape[1]), part)

    def visible(self, batch: int) -> Bool[Tensor, "h l s"]:
        """What the queries of a batch item may see: an S×S matrix, for pictures of short sequences."""
        _, heads, length, size = self.shape
        seen = torch.ones(1, 1, 1, dtype=torch.bool)
        if self.rule is not None:
            place, h = torch.arange(size - length, size)[:, None], torch.arange(heads)[:, None, None]
            seen = self.rule.visible(torch.tensor(batch), h, place, torch.arange(size))
        if self.added is not None:
            seen = seen & ~self.added.expand(-1, -1, length, size)[batch if len(self.added) > 1 else 0].isneginf()
        return seen.expand(heads, length, size)

    @property
    def eager_maps(self) -> Float[Tensor, "b h l s"] | None:
        """The weights as the model made them, where it makes them; None on fused paths."""
        if self.maps is not None:
            self._unchanged()
        return self.maps

    # -- statistics, for every head and query ------------------------------------------------------------

    @cached_property
    def lse(self) -> Float[Tensor, "b h l"]:
        """Log-sum-exp of every row of scores; −inf for a row that sees nothing."""
        return self.statistics.lse

    @cached_property
    def statistics(self) -> Statistics:
        """Entropy, distance, spread and mass on the first key, computed together."""
        if self.kept is not None:
            return self.kept
        with torch.no_grad():
            return compute.statistics(self) if self.maps is None else self._from_maps()

    def entropy(self) -> Float[Tensor, "b h l"]:
        """Entropy of every row of weights in nats: 0 = all on one key, log n = evenly on n."""
        return self.statistics.entropy

    def distance(self) -> Float[Tensor, "b h l"]:
        """How far back every query looks, on average, in places; negative: ahead. The spread is in `statistics`."""
        return self.statistics.distance

    def mass(self, on: int | list[int]) -> Float[Tensor, "b h l"]:
        """Weight that every query puts on the chosen keys together (sinks, separators, …)."""
        chosen = _indices("mass(on=…)", [on] if isinstance(on, int) else list(on), self.shape[3])
        with torch.no_grad():
            return places.on_keys(self, chosen.unique()).sum(-1)

    def beside(self, offset: int) -> Float[Tensor, "b h l"]:
        """Weight that every query puts on the key `offset` places after its own: −1 the one before, 0 its own."""
        with torch.no_grad():
            return places.beside(self, offset)

    def received(self) -> Float[Tensor, "b h s"]:
        """Weight that every key receives from all queries together."""
        with torch.no_grad():
            if self.maps is not None:
                return self.maps.float().sum(-2)
            return compute.received(self)

    def top(self, count: int) -> tuple[Float[Tensor, "b h l n"], Int[Tensor, "b h l n"]]:
        """The largest weights of every query, and the keys they are on."""
        if count < 1:
            raise ValueError(f"top(count) must be at least 1, got {count}")
        with torch.no_grad():
            return compute.top(self, count)

    def _from_maps(self) -> Statistics:
        assert self.maps is not None
        w = self.maps.double()
        place = torch.arange(self.shape[3], dtype=torch.float64)
        mean, square = w @ place, w @ place**2
        empty = w.sum(-1) == 0
        own = torch.arange(self.shape[3] - self.shape[2], self.shape[3])
        return Statistics(
            entropy=-(w * w.clamp_min(1e-300).log()).sum(-1).float(),
            distance=torch.where(empty, 0.0, own - mean),
            spread=(square - mean**2).clamp_min(0).sqrt().float(),
            sink=w[..., 0].float(),
            empty=empty,
            lse=torch.zeros_like(mean).float(),
        )

    def __repr__(self) -> str:
        batch, heads, length, size = self.shape
        hides = (
            f", mask={self.rule!r}" if self.rule is not None else ", mask=<tensor>" if self.added is not None else ""
        )
        return f"Call({self.name!r}, B={batch} H={heads} L={length} S={size}, {self.kernel}{hides})"


def versions_of(*tensors: Tensor) -> tuple[int, ...]:
    """How often each was changed in place. Tensors of inference mode do not count it, and cannot be checked."""
    return tuple(-1 if x.is_inference() else x._version for x in tensors)


def _indices(what: str, asked: Pick, size: int) -> Int[Tensor, "n"]:
    if isinstance(asked, bool) or not isinstance(asked, int | slice | list | tuple | range | type(None)):
        raise TypeError(f"{what} must be an index, a slice or a list of indices, got {asked!r}")
    if asked is None or isinstance(asked, slice):
        return torch.arange(*(asked or slice(None)).indices(size))
    wanted = [asked] if isinstance(asked, int) else list(asked)
    for index in wanted:
        if not -size <= index < size:
            raise ValueError(f"{what}: index {index} is out of range, there are {size}")
    return torch.tensor([index % size for index in wanted], dtype=torch.long)
