"""Finding one thing among many: the smallest task that needs attention, and the smallest model that can do it.

    items       S of them, each with a key and a value:       x_j = E_key[key_j] + E_value[value_j]
    query       one of the keys; the answer is its value
    model       scores_j = (W_q q) · (W_k x_j) · scale,  w = weigh(scores),  answer = W_a norm(Σ_j w_j W_v x_j)

`weigh` is softmax in attention; experiments put other things in its place and leave all else as it is.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KEYS, VALUES = 32, 8
Weigh = Callable[[Tensor], Tensor]


class Items(NamedTuple):
    """A batch: keys and values (B, S), the key asked for (B,), and the right answer (B,)."""

    keys: Tensor
    values: Tensor
    query: Tensor
    answer: Tensor


def retrieval(batch: int, items: int) -> Items:
    """Random keys, each once in a row, with random values; the answer is the value of the key asked for.

    >>> batch = retrieval(4, 8)
    >>> bool((batch.values[batch.keys == batch.query[:, None]] == batch.answer).all())
    True
    """
    keys = torch.rand(batch, KEYS).argsort(1)[:, :items]
    values = torch.randint(VALUES, (batch, items))
    place = torch.randint(items, (batch, 1))
    return Items(keys, values, keys.gather(1, place)[:, 0], values.gather(1, place)[:, 0])


def majority(batch: int, items: int) -> Items:
    """The same items, but the answer is the value that occurs most often; a tie goes to the smallest."""
    found = retrieval(batch, items)
    return found._replace(answer=F.one_hot(found.values, VALUES).sum(1).argmax(1))


class Reader(nn.Module):
    """One query, one head: items → scores of the answer (B, VALUES)."""

    def __init__(self, width: int, weigh: Weigh | nn.Module, scale: float | None = None) -> None:
        super().__init__()
        self.key, self.value = nn.Embedding(KEYS, width), nn.Embedding(VALUES, width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VALUES))
        self.weigh, self.scale = weigh, width**-0.5 if scale is None else scale

    def forward(self, items: Items) -> Tensor:
        x = self.key(items.keys) + self.value(items.values)  # (B, S, D)
        q = self.q(self.key(items.query))  # (B, D)
        scores = (self.k(x) @ q[..., None])[..., 0] * self.scale  # (B, S)
        weights = self.weigh(scores)
        answer: Tensor = self.out((weights[:, None] @ self.v(x))[:, 0])
        return answer


def loss(model: nn.Module, items: Items) -> Tensor:
    """Cross-entropy of the answer."""
    return F.cross_entropy(model(items), items.answer)


def accuracy(model: nn.Module, items: Items) -> float:
    """The share of right answers."""
    return float((model(items).argmax(-1) == items.answer).float().mean())


def softmax(scores: Tensor) -> Tensor:
    """The weights of attention."""
    return torch.softmax(scores, -1)
