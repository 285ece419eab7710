"""Choose the root's move by sequential halving over sampled moves (Gumbel AlphaZero, Danihelka et al., 2022).

With few simulations the most visited move of a tree search may be worse than the policy it started from. So some of the
moves are sampled without replacement (the largest logit + Gumbel noise), all of them get the same number of
simulations, the worse half is dropped, and so on until all simulations are used. The chosen move has the largest
noise + logit + σ(Q), and

    π′ = softmax(logits + σ(Q completed))

is a policy that is better than π in expectation: the target of training. Q lies between 0 and 1 here, and
σ(q) = (50 + most visits) · scale · q.
"""

from dataclasses import dataclass

import numpy as np

from regard.connectx.search.puct_network_search import Puct

Array = np.ndarray


@dataclass(frozen=True)
class RootChoice:
    """The columns (games,) to play, and the improved policy (games, columns) to train on."""

    columns: Array
    policy: Array


def gumbel_search(
    search: Puct, simulations: int, *, considered: int = 16, scale: float = 1.0, noise: float = 1.0
) -> RootChoice:
    """Run simulations in each game, and return the moves to play and the improved policies.

    search          the games and their trees
    simulations     number of simulations in each game
    considered      largest number of moves that are tried
    scale           weight of the values against the policy
    noise           scale of the Gumbel noise; 0 chooses without sampling

    >>> from regard.connectx import Board
    >>> def uniform(planes, legal):
    ...     return legal / legal.sum(1, keepdims=True), np.zeros(len(legal))
    >>> search = Puct([Board.from_moves("112233")], uniform, seed=0)
    >>> gumbel_search(search, 8).columns.tolist()
    [3]
    """
    if simulations < 1 or considered < 1:
        raise ValueError(f"simulations and considered must be at least 1, got {simulations} and {considered}")
    search.run(0)  # evaluates the roots
    legal = search.searched_moves()
    logits = np.where(legal, np.log(np.maximum(search.prior(), 1e-12)), -np.inf)
    gumbels = np.where(legal, noise * search.random.gumbel(size=legal.shape), 0.0)
    before = search.visits()
    schedules = {m: _schedule(m, simulations) for m in range(1, search.shape.columns + 1)}
    count = np.clip(legal.sum(1), 1, min(considered, search.shape.columns))
    schedule = np.array([schedules[int(m)] for m in count])  # (games, simulations)
    # Only `count` moves of each game are candidates; the others get no simulations.
    ranks = np.argsort(np.argsort(-(logits + gumbels), axis=1, kind="stable"), axis=1)
    candidates = legal & (ranks < count[:, None])
    for number in range(simulations):
        tried = search.visits() - before
        priority = logits + gumbels + _sigma(search, scale)
        ready = candidates & (tried == schedule[:, number, None])
        # In a game without a ready move (its tree was reused from an earlier search) any candidate may be next.
        ready = np.where(ready.any(1, keepdims=True), ready, candidates)
        search.run_from(np.argmax(np.where(ready, priority, -np.inf), axis=1))
    tried = search.visits() - before
    priority = logits + gumbels + _sigma(search, scale)
    most = candidates & (tried == np.where(candidates, tried, -1).max(1, keepdims=True))
    columns = np.argmax(np.where(most, priority, -np.inf), axis=1)
    improved = logits + _sigma(search, scale)
    improved = np.exp(improved - np.max(improved, axis=1, keepdims=True, where=legal, initial=-1e30))
    improved = np.where(legal, improved, 0.0)
    return RootChoice(columns, improved / np.maximum(improved.sum(1, keepdims=True), 1e-12))


def _sigma(search: Puct, scale: float) -> Array:
    """Return σ(Q) of each move; for untried moves, Q is a mean of the root's value and the Q of the tried moves."""
    visits, prior = search.visits(), search.prior()
    q = search.q()
    tried = visits > 0
    weight = (prior * tried).sum(1)
    mean = np.where(weight > 0, (prior * q * tried).sum(1) / np.maximum(weight, 1e-12), 0.0)
    total = visits.sum(1)
    mixed = (search.value() + total * mean) / (1 + total)
    completed = np.where(tried, q, mixed[:, None])
    return (50 + visits.max(1, keepdims=True)) * scale * (completed + 1) / 2


def _schedule(moves: int, simulations: int) -> list[int]:
    """Return for each simulation of sequential halving the number of earlier simulations of the move it tries.

    >>> _schedule(4, 8)
    [0, 0, 0, 0, 1, 1, 2, 2]
    >>> _schedule(1, 3)
    [0, 1, 2]
    """
    if moves == 1:
        return list(range(simulations))
    phases = int(np.ceil(np.log2(moves)))
    schedule: list[int] = []
    visits, left = 0, moves
    while len(schedule) < simulations:
        for _ in range(max(1, simulations // (phases * left))):
            schedule += [visits] * left
            visits += 1
        left = max(2, left // 2)
    return schedule[:simulations]
