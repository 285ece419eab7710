"""Search trees of PUCT in arrays, one tree for each game, and the compiled operations on them.

A node is examined when a simulation first reaches it. If the next two moves decide it, its value is proven. If only one
move does not lose at once, the node is forced and the simulation continues below it. Otherwise a look ahead may prove
its value (look_ahead.py); if it does not, the node is a leaf that the evaluator evaluates.
"""

from typing import NamedTuple

import numpy as np

from regard.connectx.game.bitboard import (
    Shape,
    column_squares,
    completing_squares,
    has_line,
    playable_squares,
    safe_moves,
)
from regard.connectx.search.look_ahead import UNKNOWN, look_ahead
from regard.numba_functions import compiled

Array = np.ndarray

NEW, WAITING, EXPANDED, PROVEN, FORCED = 0, 1, 2, 3, 4  # state of a node; FORCED has one move and no policy
OPEN = 2.0  # instead of a value: the next two moves do not decide the position
WIN = 1 - 1e-9  # a mean above this is a win: all its values are 1 up to rounding
NO_GUESS = 9.0  # instead of the predicted value of a move: the evaluator predicts none
PROVEN_WEIGHT = 1.0  # weight of a proven value


class Trees(NamedTuple):
    """A tree for each game, as arrays (games, nodes) and (games, nodes, columns). Child 0 means no child."""

    child: Array
    prior: Array
    guess: Array  # predicted value of each move for the side that plays it, or NO_GUESS
    moves: Array  # squares that are searched: all playable ones, or those that win, or those that do not lose at once
    visits: Array
    total: Array  # weighted sum of the values for the side to move at the node
    weight: Array  # sum of the weights of those values
    waiting: Array  # unfinished simulations through the node, each counted as a loss for now
    kind: Array
    used: Array  # (games,): number of nodes


class Leaves(NamedTuple):
    """Ends of the simulations of one round, (games · width); node −1 where nothing is to be evaluated."""

    node: Array
    length: Array
    path: Array
    position: Array
    mask: Array


def new_trees(games: int, nodes: int, columns: int) -> Trees:
    """Return a tree with only a root for each game, in arrays with room for `nodes` nodes per tree."""

    def empty(kind: type, *more: int) -> Array:
        return np.zeros((games, nodes, *more), kind)

    return Trees(
        child=empty(np.int32, columns), prior=empty(np.float32, columns), guess=empty(np.float32, columns),
        moves=empty(np.int64), visits=empty(np.int32), total=empty(np.float64), weight=empty(np.float64),
        waiting=empty(np.int32), kind=empty(np.int8), used=np.ones(games, np.int64),
    )  # fmt: skip


@compiled
def _back_up(game: int, end: int, value: float, weight: float, trees: Trees, leaves: Leaves) -> None:
    """Add the value of a simulation's last position, for its side to move, to all nodes that the simulation passed."""
    for at in range(leaves.length[end], -1, -1):
        node = leaves.path[end, at]
        if trees.kind[game, node] == PROVEN and trees.visits[game, node] > 0:  # add the proven value instead
            value = trees.total[game, node] / trees.weight[game, node]
        trees.visits[game, node] += 1
        trees.total[game, node] += value * weight
        trees.weight[game, node] += weight
        trees.waiting[game, node] -= 1
        value = -value


@compiled
def _prove(game: int, end: int, trees: Trees, leaves: Leaves, shape: Shape) -> None:
    """Mark nodes above a proven node as proven where possible. A root keeps its policy and is searched further."""
    for at in range(leaves.length[end] - 1, 0, -1):
        node = leaves.path[end, at]
        value, decided = -1.0, True
        for column in range(shape.columns):
            if trees.moves[game, node] & column_squares(column, shape):
                child = trees.child[game, node, column]
                if child == 0 or trees.kind[game, child] != PROVEN:
                    decided = False
                else:
                    value = max(value, -trees.total[game, child] / trees.weight[game, child])
        if not decided and value < WIN:
            return
        trees.kind[game, node] = PROVEN
        trees.total[game, node] = value * trees.weight[game, node]


@compiled
def descend(
    first_columns: Array, width: int, most: int, only_new_roots: bool, position: Array, mask: Array, over: Array,
    trees: Trees, leaves: Leaves, exploration: float, visits: int, shape: Shape,
) -> None:  # fmt: skip
    """Descend every tree `width` times, first to its column in `first_columns` (−1: any); store ends in `leaves`.

    A look ahead of at most `visits` positions tries to prove the value of a leaf.
    """
    for game in range(len(mask)):
        for end in range(game * most, (game + 1) * most):
            leaves.node[end] = -1
        if over[game] or (only_new_roots and trees.kind[game, 0] != NEW):
            continue
        for end in range(game * most, game * most + width):
            node, length, here, stones = 0, 0, position[game], mask[game]
            leaves.path[end, 0] = 0
            trees.waiting[game, 0] += 1
            value = OPEN
            while True:
                if trees.kind[game, node] == NEW:
                    value, trees.moves[game, node] = _examine(here, stones, shape)
                    if length == 0:  # a root needs a policy
                        value = OPEN
                    elif value == OPEN and trees.moves[game, node] & (trees.moves[game, node] - 1) == 0:
                        trees.kind[game, node] = FORCED
                    elif value == OPEN and visits > 0:
                        exact = look_ahead(here, stones, visits, shape)
                        value = OPEN if exact == UNKNOWN else float(exact)
                if trees.kind[game, node] != EXPANDED and trees.kind[game, node] != FORCED:
                    break
                column = first_columns[game] if length == 0 else -1
                if column < 0:
                    column = _best_column(game, node, trees, exploration, shape)
                child = trees.child[game, node, column]
                if child == 0:
                    child = trees.used[game]
                    trees.used[game] += 1
                    trees.child[game, node, column] = child
                    trees.kind[game, child] = NEW
                here ^= stones
                stones |= stones + (np.int64(1) << (column * shape.stride))
                node = child
                length += 1
                leaves.path[end, length] = node
                trees.waiting[game, node] += 1
            leaves.length[end] = length
            kind = trees.kind[game, node]
            if kind == WAITING:  # another simulation of this round has reached the same leaf
                for at in range(length + 1):
                    trees.waiting[game, leaves.path[end, at]] -= 1
                continue
            if kind == PROVEN:
                _back_up(game, end, trees.total[game, node] / trees.weight[game, node], PROVEN_WEIGHT, trees, leaves)
                continue
            if value != OPEN:
                trees.kind[game, node] = PROVEN
                _back_up(game, end, value, PROVEN_WEIGHT, trees, leaves)
                _prove(game, end, trees, leaves, shape)
                continue
            trees.kind[game, node] = WAITING
            leaves.node[end], leaves.position[end], leaves.mask[end] = node, here, stones


@compiled
def _examine(here: int, stones: int, shape: Shape) -> tuple[float, int]:
    """Return the value if the next two moves decide the position, else OPEN; and the squares of the moves to search."""
    moves = playable_squares(stones, shape)
    if has_line(here ^ stones, shape):
        return -1.0, moves
    if moves == 0:
        return 0.0, moves
    wins = completing_squares(here, shape) & moves
    if wins:
        return 1.0, wins
    safe = safe_moves(here, stones, shape)
    return (OPEN, safe) if safe else (-1.0, moves)


@compiled
def _virtual_loss(game: int, node: int, trees: Trees) -> float:
    """Return the weight of the unfinished simulations through a node; each has the mean weight of the finished ones."""
    visits = trees.visits[game, node]
    mean: float = trees.weight[game, node] / visits if visits else 1.0
    return trees.waiting[game, node] * mean


@compiled
def _best_column(game: int, node: int, trees: Trees, exploration: float, shape: Shape) -> int:
    visits = trees.visits[game, node] + trees.waiting[game, node]
    # A guess counts as one visit. Without it, the value of an untried move is taken as slightly below the node's.
    loss = _virtual_loss(game, node, trees)
    default = (trees.total[game, node] - loss) / max(trees.weight[game, node] + loss, 1) - 0.2
    spread = exploration * np.sqrt(visits)
    best, highest = -1, -1e18
    for column in range(shape.columns):
        if not trees.moves[game, node] & column_squares(column, shape):
            continue
        child = trees.child[game, node, column]
        tried = trees.visits[game, child] + trees.waiting[game, child] if child else 0
        loss = _virtual_loss(game, child, trees) if child else 0.0
        total = -(trees.total[game, child] + loss) if child else 0.0
        weight = trees.weight[game, child] + loss if child else 0.0
        guess = trees.guess[game, node, column]
        value = default
        if guess != NO_GUESS:
            value = (total + guess) / (weight + 1)
        elif tried:
            value = total / weight
        upper = value + spread * trees.prior[game, node, column] / (1 + tried)
        if child and trees.kind[game, child] == PROVEN and trees.total[game, child] > WIN * trees.weight[game, child]:
            upper -= 1e9  # proven to lose: chosen only if every move is
        if upper > highest:
            best, highest = column, upper
    return best


@compiled
def expand(
    ends: Array, priors: Array, guesses: Array, values: Array, weights: Array, most: int, trees: Trees, leaves: Leaves
) -> None:
    """Store the evaluations of the leaves with these indices: policy, predicted values of moves, value and weight."""
    for number in range(len(ends)):
        end = ends[number]
        game, node = end // most, leaves.node[end]
        trees.kind[game, node] = EXPANDED
        for column in range(priors.shape[1]):
            trees.prior[game, node, column] = priors[number, column]
            trees.guess[game, node, column] = guesses[number, column]
        _back_up(game, end, values[number], weights[number], trees, leaves)


@compiled
def set_proven(end: int, value: float, most: int, trees: Trees, leaves: Leaves, shape: Shape) -> None:
    """Store the exact value of the leaf with the index `end`."""
    trees.kind[end // most, leaves.node[end]] = PROVEN
    _back_up(end // most, end, value, PROVEN_WEIGHT, trees, leaves)
    _prove(end // most, end, trees, leaves, shape)


@compiled
def play_moves(columns: Array, position: Array, mask: Array, over: Array, trees: Trees, shape: Shape) -> None:
    """Play these moves; each tree keeps the nodes below its move."""
    nodes = trees.visits.shape[1]
    place = np.zeros(nodes, np.int64)
    for game in range(len(mask)):
        if over[game]:
            continue
        used, node = trees.used[game], trees.child[game, 0, columns[game]]
        position[game] ^= mask[game]
        mask[game] |= mask[game] + (np.int64(1) << (columns[game] * shape.stride))
        over[game] = has_line(position[game] ^ mask[game], shape) or mask[game] == shape.full
        place[:used] = 0
        free = 0
        # A root needs a policy, so a node that is forced or proven is evaluated again.
        if node and trees.kind[game, node] == EXPANDED:
            place[node] = 1
            for at in range(node, used):
                if place[at] == 0:
                    continue
                place[at] = free + 1
                for column in range(shape.columns):
                    child = trees.child[game, at, column]
                    if child:
                        place[child] = 1
                    trees.child[game, free, column] = child
                    trees.prior[game, free, column] = trees.prior[game, at, column]
                    trees.guess[game, free, column] = trees.guess[game, at, column]
                trees.moves[game, free] = trees.moves[game, at]
                trees.visits[game, free] = trees.visits[game, at]
                trees.total[game, free] = trees.total[game, at]
                trees.weight[game, free] = trees.weight[game, at]
                trees.kind[game, free] = trees.kind[game, at]
                free += 1
            for at in range(free):
                for column in range(shape.columns):
                    child = trees.child[game, at, column]
                    if child:
                        trees.child[game, at, column] = place[child] - 1
        for at in range(free, used):
            trees.child[game, at] = 0
            trees.visits[game, at] = 0
            trees.total[game, at] = 0.0
            trees.weight[game, at] = 0.0
            trees.kind[game, at] = NEW
        trees.used[game] = max(free, 1)
