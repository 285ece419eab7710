"""Retrieval of one item among many: the smallest task that needs attention, and the smallest model that solves it.

    items       S items, each with a key and a value:         x_j = E_key[key_j] + E_value[value_j]
    query       one of the keys; the answer is its value
    model       scores_j = (W_q q) · (W_k x_j) · scale,  w = weigh(scores),  answer = W_a norm(Σ_j w_j W_v x_j)

`weigh` is softmax in attention; experiments replace it and leave everything else unchanged.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.claims.claim import Settings
from regard.claims.tasks.fit import Evaluation, fit, share_correct

KEYS, VALUES = 32, 8
ITEMS = 16
Weigh = Callable[[Tensor], Tensor]


class Items(NamedTuple):
    """A batch: keys and values (B, S), the key of the query (B,), and the correct answer (B,)."""

    keys: Tensor
    values: Tensor
    query: Tensor
    answer: Tensor


def retrieval(batch: int, items: int = ITEMS) -> Items:
    """Return random distinct keys with random values; the answer is the value of the query's key.

    >>> batch = retrieval(4, 8)
    >>> bool((batch.values[batch.keys == batch.query[:, None]] == batch.answer).all())
    True
    """
    keys = torch.rand(batch, KEYS).argsort(1)[:, :items]
    values = torch.randint(VALUES, (batch, items))
    position = torch.randint(items, (batch, 1))
    return Items(keys, values, keys.gather(1, position)[:, 0], values.gather(1, position)[:, 0])


def majority(batch: int, items: int = ITEMS) -> Items:
    """Return a batch of `retrieval` whose answer is instead the most frequent value, the smallest in a tie."""
    batch_items = retrieval(batch, items)
    return batch_items._replace(answer=F.one_hot(batch_items.values, VALUES).sum(1).argmax(1))


class Reader(nn.Module):
    """Attention with one query and one head: items → logits of the answer (B, VALUES)."""

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


def train_reader(
    model: Reader, settings: Settings, task: Callable[[int], Items] = retrieval, evaluations: int = 1
) -> list[Evaluation]:
    """Train on fresh batches of 64 and return evaluations whose score is the accuracy on settings["test"] examples."""
    test = task(settings["test"])

    def loss() -> Tensor:
        items = task(64)
        return F.cross_entropy(model(items), items.answer)

    def accuracy() -> float:
        return share_correct(model(test), test.answer)

    return fit(model, loss, settings["steps"], score=accuracy, evaluations=evaluations, learning_rate=settings["rate"])


def softmax(scores: Tensor) -> Tensor:
    """Return the softmax of each row of scores, the weights of attention."""
    return torch.softmax(scores, -1)
