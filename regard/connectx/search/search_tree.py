"""The trees of a search (puct.py): a tree for each game, in arrays, and what is done with them, compiled.

A node is looked at when a walk first gets there. If the next two moves decide it, it is known; if only one move does
not lose at once, it is passed through; else it is a leaf, and somebody is asked about it.
"""

from typing import NamedTuple

import numpy as np

from regard.compiled import compiled
from regard.connectx.game.bitboard import Shape, aligned, careful, column_bits, completing, possible

Array = np.ndarray

NEW, WAITING, GROWN, KNOWN, FORCED = 0, 1, 2, 3, 4  # what a node is; FORCED has one move, and no policy
OPEN = 2.0  # instead of a value: nothing to be seen at a glance
SURE = 1 - 1e-9  # the mean of values that are all 1
NO_GUESS = 9.0
PROVED = 1.0  # what a value weighs that is proved


class Forest(NamedTuple):
    """A tree for each game: arrays (games, nodes) and (games, nodes, columns). Child 0 means none."""

    child: Array
    prior: Array
    guess: Array  # what each move is thought to be worth for the side that makes it, before it is tried; or NO_GUESS
    moves: Array  # the squares that are walked: all possible ones, or those that win or do not lose at once
    visits: Array
    total: Array  # the sum of values, for the side to move at the node, each times what it weighs
    weight: Array  # the sum of what they weigh
    waiting: Array  # walks under way, each counted as lost until its value comes
    kind: Array
    used: Array


class Leaves(NamedTuple):
    """The ends of the walks of one round: (games · width) of them, node −1 where there is nothing to ask."""

    node: Array
    length: Array
    path: Array
    position: Array
    mask: Array


def planted(games: int, nodes: int, columns: int) -> Forest:
    """Trees that have a root each, and room for so many nodes."""

    def empty(kind: type, *more: int) -> Array:
        return np.zeros((games, nodes, *more), kind)

    return Forest(
        child=empty(np.int32, columns), prior=empty(np.float32, columns), guess=empty(np.float32, columns),
        moves=empty(np.int64), visits=empty(np.int32), total=empty(np.float64), weight=empty(np.float64),
        waiting=empty(np.int32), kind=empty(np.int8), used=np.ones(games, np.int64),
    )  # fmt: skip


@compiled
def _count_up(game: int, end: int, value: float, weight: float, forest: Forest, leaves: Leaves) -> None:
    """Count a value, for the side to move at the end of the walk, on all nodes passed; they wait no longer."""
    for at in range(leaves.length[end], -1, -1):
        node = leaves.path[end, at]
        if forest.kind[game, node] == KNOWN and forest.visits[game, node] > 0:  # whatever came of this walk
            value = forest.total[game, node] / forest.weight[game, node]
        forest.visits[game, node] += 1
        forest.total[game, node] += value * weight
        forest.weight[game, node] += weight
        forest.waiting[game, node] -= 1
        value = -value


@compiled
def _prove(game: int, end: int, forest: Forest, leaves: Leaves, shape: Shape) -> None:
    """The end of the walk is known: so may be the nodes above it. A root keeps its policy and goes on being walked."""
    for at in range(leaves.length[end] - 1, 0, -1):
        node = leaves.path[end, at]
        value, decided = -1.0, True
        for column in range(shape.columns):
            if forest.moves[game, node] & column_bits(column, shape):
                child = forest.child[game, node, column]
                if child == 0 or forest.kind[game, child] != KNOWN:
                    decided = False
                else:
                    value = max(value, -forest.total[game, child] / forest.weight[game, child])
        if not decided and value < SURE:
            return
        forest.kind[game, node] = KNOWN
        forest.total[game, node] = value * forest.weight[game, node]


@compiled
def walk(
    forced: Array,
    width: int,
    most: int,
    only_new_roots: bool,
    position: Array,
    mask: Array,
    over: Array,
    forest: Forest,
    leaves: Leaves,
    explore: float,
    shape: Shape,
) -> None:
    """Walk down every tree `width` times, beginning with the `forced` column if that is not −1; note the ends."""
    for game in range(len(mask)):
        for end in range(game * most, (game + 1) * most):
            leaves.node[end] = -1
        if over[game] or (only_new_roots and forest.kind[game, 0] != NEW):
            continue
        for end in range(game * most, game * most + width):
            node, length, here, stones = 0, 0, position[game], mask[game]
            leaves.path[end, 0] = 0
            forest.waiting[game, 0] += 1
            value = OPEN
            while True:
                if forest.kind[game, node] == NEW:
                    value, forest.moves[game, node] = _at_a_glance(here, stones, shape)
                    if length == 0:  # a root wants a policy
                        value = OPEN
                    elif value == OPEN and forest.moves[game, node] & (forest.moves[game, node] - 1) == 0:
                        forest.kind[game, node] = FORCED
                if forest.kind[game, node] != GROWN and forest.kind[game, node] != FORCED:
                    break
                chosen = forced[game] if length == 0 else -1
                if chosen < 0:
                    chosen = _chosen(game, node, forest, explore, shape)
                child = forest.child[game, node, chosen]
                if child == 0:
                    child = forest.used[game]
                    forest.used[game] += 1
                    forest.child[game, node, chosen] = child
                    forest.kind[game, child] = NEW
                here ^= stones
                stones |= stones + (np.int64(1) << (chosen * shape.stride))
                node = child
                length += 1
                leaves.path[end, length] = node
                forest.waiting[game, node] += 1
            leaves.length[end] = length
            kind = forest.kind[game, node]
            if kind == WAITING:  # another walk of this round is asking about it
                for at in range(length + 1):
                    forest.waiting[game, leaves.path[end, at]] -= 1
                continue
            if kind == KNOWN:
                _count_up(game, end, forest.total[game, node] / forest.weight[game, node], PROVED, forest, leaves)
                continue
            if value != OPEN:
                forest.kind[game, node] = KNOWN
                _count_up(game, end, value, PROVED, forest, leaves)
                _prove(game, end, forest, leaves, shape)
                continue
            forest.kind[game, node] = WAITING
            leaves.node[end], leaves.position[end], leaves.mask[end] = node, here, stones


@compiled
def _at_a_glance(here: int, stones: int, shape: Shape) -> tuple[float, int]:
    """The value of a position whose next two moves decide it, or OPEN; and the squares that are worth a stone."""
    moves = possible(stones, shape)
    if aligned(here ^ stones, shape):
        return -1.0, moves
    if moves == 0:
        return 0.0, moves
    wins = completing(here, shape) & moves
    if wins:
        return 1.0, wins
    kept = careful(here, stones, shape)
    return (OPEN, kept) if kept else (-1.0, moves)


@compiled
def _lost(game: int, node: int, forest: Forest) -> float:
    """What the walks under way through a node weigh, that count as lost: each as much as those before it."""
    visits = forest.visits[game, node]
    each: float = forest.weight[game, node] / visits if visits else 1.0
    lost: float = forest.waiting[game, node] * each
    return lost


@compiled
def _chosen(game: int, node: int, forest: Forest, explore: float, shape: Shape) -> int:
    visits = forest.visits[game, node] + forest.waiting[game, node]
    # A guess counts as one visit. Without, a move not tried yet is thought to be worth a little less than the node is.
    lost = _lost(game, node, forest)
    unknown = (forest.total[game, node] - lost) / max(forest.weight[game, node] + lost, 1) - 0.2
    spread = explore * np.sqrt(visits)
    chosen, highest = -1, -1e18
    for column in range(shape.columns):
        if not forest.moves[game, node] & column_bits(column, shape):
            continue
        child = forest.child[game, node, column]
        tried = forest.visits[game, child] + forest.waiting[game, child] if child else 0
        lost = _lost(game, child, forest) if child else 0.0
        worth = -(forest.total[game, child] + lost) if child else 0.0
        weight = forest.weight[game, child] + lost if child else 0.0
        guess = forest.guess[game, node, column]
        value = unknown
        if guess != NO_GUESS:
            value = (worth + guess) / (weight + 1)
        elif tried:
            value = worth / weight
        upper = value + spread * forest.prior[game, node, column] / (1 + tried)
        if (
            child
            and forest.kind[game, child] == KNOWN
            and forest.total[game, child] > SURE * forest.weight[game, child]
        ):
            upper -= 1e9  # known to lose: only where nothing else is left
        if upper > highest:
            chosen, highest = column, upper
    return chosen


@compiled
def grow(
    ends: Array,
    priors: Array,
    guesses: Array,
    values: Array,
    weights: Array,
    most: int,
    forest: Forest,
    leaves: Leaves,
) -> None:
    """What was said of the leaves at these ends: a policy, guesses, a value and what it weighs each."""
    for number in range(len(ends)):
        end = ends[number]
        game, node = end // most, leaves.node[end]
        forest.kind[game, node] = GROWN
        for column in range(priors.shape[1]):
            forest.prior[game, node, column] = priors[number, column]
            forest.guess[game, node, column] = guesses[number, column]
        _count_up(game, end, values[number], weights[number], forest, leaves)


@compiled
def know(end: int, value: float, most: int, forest: Forest, leaves: Leaves, shape: Shape) -> None:
    """The exact value of the leaf at this end."""
    forest.kind[end // most, leaves.node[end]] = KNOWN
    _count_up(end // most, end, value, PROVED, forest, leaves)
    _prove(end // most, end, forest, leaves, shape)


@compiled
def move_on(columns: Array, position: Array, mask: Array, over: Array, forest: Forest, shape: Shape) -> None:
    """Make these moves; the trees keep what is below them."""
    nodes = forest.visits.shape[1]
    place = np.zeros(nodes, np.int64)
    for game in range(len(mask)):
        if over[game]:
            continue
        used, node = forest.used[game], forest.child[game, 0, columns[game]]
        position[game] ^= mask[game]
        mask[game] |= mask[game] + (np.int64(1) << (columns[game] * shape.stride))
        over[game] = aligned(position[game] ^ mask[game], shape) or mask[game] == shape.full
        place[:used] = 0
        free = 0
        # A root must have its policy: what is merely forced, or known to be won or lost, is looked at anew.
        if node and forest.kind[game, node] == GROWN:
            place[node] = 1
            for at in range(node, used):
                if place[at] == 0:
                    continue
                place[at] = free + 1
                for column in range(shape.columns):
                    child = forest.child[game, at, column]
                    if child:
                        place[child] = 1
                    forest.child[game, free, column] = child
                    forest.prior[game, free, column] = forest.prior[game, at, column]
                    forest.guess[game, free, column] = forest.guess[game, at, column]
                forest.moves[game, free] = forest.moves[game, at]
                forest.visits[game, free] = forest.visits[game, at]
                forest.total[game, free] = forest.total[game, at]
                forest.weight[game, free] = forest.weight[game, at]
                forest.kind[game, free] = forest.kind[game, at]
                free += 1
            for at in range(free):
                for column in range(shape.columns):
                    child = forest.child[game, at, column]
                    if child:
                        forest.child[game, at, column] = place[child] - 1
        for at in range(free, used):
            forest.child[game, at] = 0
            forest.visits[game, at] = 0
            forest.total[game, at] = 0.0
            forest.weight[game, at] = 0.0
            forest.kind[game, at] = NEW
        forest.used[game] = max(free, 1)
