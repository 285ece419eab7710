"""The root's move by sequential halving over moves sampled without replacement (Danihelka et al., 2022).

With few simulations the most visited move of a tree search may be worse than the policy it started from. Here a
handful of the moves that are worth a walk is sampled (the largest logit + Gumbel noise), all get the same number of
walks, the worse half is dropped, and so on, until the walks are used up. The move is the best of noise + logit + σ(Q);
and

    π′ = softmax(logits + σ(Q completed))

is a policy that is expected to be better than π: the target to train on. Q lies between 0 and 1 here, and
σ(q) = (50 + most visits) · scale · q.
"""

from dataclasses import dataclass

import numpy as np

from regard.connectx.search.puct import Puct

Array = np.ndarray


@dataclass(frozen=True)
class Chosen:
    """The columns (games,) to play, and the improved policy (games, columns) to learn from."""

    columns: Array
    policy: Array


def gumbel(search: Puct, simulations: int, *, considered: int = 16, scale: float = 1.0, noise: float = 1.0) -> Chosen:
    """Spend so many walks in each game, and choose. `noise=0` chooses without sampling, for play instead of learning.

    >>> from regard.connectx import Board
    >>> def knows_nothing(planes, legal):
    ...     return np.zeros(legal.shape), np.zeros(len(legal))
    >>> search = Puct([Board.from_moves("112233")], knows_nothing, seed=0)
    >>> gumbel(search, 8).columns.tolist()
    [3]
    """
    if simulations < 1 or considered < 1:
        raise ValueError(f"simulations and considered must be at least 1, got {simulations} and {considered}")
    search.run(0)  # gives every root its policy
    legal = search.walked()
    logits = np.where(legal, np.log(np.maximum(search.prior(), 1e-12)), -np.inf)
    drawn = np.where(legal, noise * search.random.gumbel(size=legal.shape), 0.0)
    before = search.visits()
    plans = {m: _plan(m, simulations) for m in range(1, search.shape.columns + 1)}
    count = np.clip(legal.sum(1), 1, min(considered, search.shape.columns))
    planned = np.array([plans[int(m)] for m in count])  # (games, simulations)
    # Moves beyond the considered ones never get a walk.
    ranks = np.argsort(np.argsort(-(logits + drawn), axis=1, kind="stable"), axis=1)
    in_play = legal & (ranks < count[:, None])
    for number in range(simulations):
        tried = search.visits() - before
        worth = logits + drawn + _sigma(search, scale)
        ready = in_play & (tried == planned[:, number, None])
        # A game whose plan has no such move (its root's tree knows more than was planned) goes on with any.
        ready = np.where(ready.any(1, keepdims=True), ready, in_play)
        search.forced(np.argmax(np.where(ready, worth, -np.inf), axis=1))
    tried = search.visits() - before
    worth = logits + drawn + _sigma(search, scale)
    most = in_play & (tried == np.where(in_play, tried, -1).max(1, keepdims=True))
    columns = np.argmax(np.where(most, worth, -np.inf), axis=1)
    improved = logits + _sigma(search, scale)
    improved = np.exp(improved - np.max(improved, axis=1, keepdims=True, where=legal, initial=-1e30))
    improved = np.where(legal, improved, 0.0)
    return Chosen(columns, improved / np.maximum(improved.sum(1, keepdims=True), 1e-12))


def _sigma(search: Puct, scale: float) -> Array:
    """σ of Q; where a move was not tried, of a mixture of the node's value and the Q of the tried, by the policy."""
    visits, prior = search.visits(), search.prior()
    q = search.q()
    tried = visits > 0
    weight = (prior * tried).sum(1)
    mean = np.where(weight > 0, (prior * q * tried).sum(1) / np.maximum(weight, 1e-12), 0.0)
    total = visits.sum(1)
    mixed = (search.value() + total * mean) / (1 + total)
    completed = np.where(tried, q, mixed[:, None])
    sigma: Array = (50 + visits.max(1, keepdims=True)) * scale * (completed + 1) / 2
    return sigma


def _plan(moves: int, simulations: int) -> list[int]:
    """For each walk, how many walks the move that takes it must have had: sequential halving, unrolled.

    >>> _plan(4, 8)
    [0, 0, 0, 0, 1, 1, 2, 2]
    >>> _plan(1, 3)
    [0, 1, 2]
    """
    if moves == 1:
        return list(range(simulations))
    phases = int(np.ceil(np.log2(moves)))
    plan: list[int] = []
    visits, left = 0, moves
    while len(plan) < simulations:
        for _ in range(max(1, simulations // (phases * left))):
            plan += [visits] * left
            visits += 1
        left = max(2, left // 2)
    return plan[:simulations]
