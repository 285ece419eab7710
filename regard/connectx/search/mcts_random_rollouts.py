"""Monte Carlo tree search with random play-outs (UCT).

A simulation follows from the root the child with the largest mean + c·√(ln N / n) until it leaves the tree, adds a node
there, plays the game to its end at random (but without missing a win or a necessary block, or giving a win away), and
counts the result on all nodes it passed. The most visited move is played. The part of the tree below the moves that
are then played is reused by the next search.
"""

import math
import time
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from regard.connectx.game.bitboard import (
    Shape,
    column_squares,
    completing_squares,
    fits_in_64_bits,
    has_line,
    playable_squares,
    popcount,
    sensible_moves,
)
from regard.connectx.search.time_budget import run_in_slices
from regard.numba_functions import compiled, uncompiled

USED, SEED = 0, 1  # indices of `register`


class Tree(NamedTuple):
    """Tree as arrays with one row per node: children (0: none), visits, sum of results for the side that moved."""

    child: Any
    visits: Any
    total: Any
    path: Any
    register: Any


@compiled
def play_out(position: int, mask: int, shape: Shape, register: Any) -> float:
    """Play a game to its end and return 1 if the side to move wins, −1 if it loses, 0 for a draw."""
    sign = 1.0
    seed = register[SEED]
    while True:
        moves = sensible_moves(position, mask, shape)
        if moves == 0:
            register[SEED] = seed
            return 0.0
        seed = seed * 742938285 % 2147483647
        for _ in range(seed % popcount(moves)):
            moves &= moves - 1
        bit = moves & -moves
        if has_line(position | bit, shape):
            register[SEED] = seed
            return sign
        position ^= mask
        mask |= bit
        sign = -sign


@compiled
def simulate(times: int, tree: Tree, position: int, mask: int, moves: int, exploration: float, shape: Shape) -> int:
    """Run `times` simulations from the root and return their number; their first move is on a square of `moves`."""
    columns, register, path = shape.columns, tree.register, tree.path
    capacity = len(tree.visits)
    for _ in range(times):
        node, length, here, stones = 0, 0, position, mask
        path[0] = 0
        while True:
            if length > 0:
                if completing_squares(here, shape) & playable_squares(stones, shape):
                    value = 1.0
                    break
                moves_here = sensible_moves(here, stones, shape)
                if moves_here == 0:
                    value = 0.0
                    break
            else:
                moves_here = moves
            if length > 0 and tree.visits[node] == 0:
                value = play_out(here, stones, shape, register)
                break
            chosen, highest = -1, -1e9
            logarithm = math.log(tree.visits[node] + 1.0)
            for column in range(columns):
                if moves_here & column_squares(column, shape) == 0:
                    continue
                child = tree.child[node * columns + column]
                if child == 0 or tree.visits[child] == 0:
                    upper = 1e6 - abs(2 * column - columns + 1)  # every move once, those near the centre first
                else:
                    visits = tree.visits[child]
                    upper = tree.total[child] / visits + exploration * math.sqrt(logarithm / visits)
                if upper > highest:
                    chosen, highest = column, upper
            child = tree.child[node * columns + chosen]
            if child == 0:
                if register[USED] == capacity:
                    value = play_out(here, stones, shape, register)
                    break
                child = register[USED]
                register[USED] = child + 1
                tree.child[node * columns + chosen] = child
            here ^= stones
            stones |= stones + (1 << (chosen * shape.stride))
            node = child
            length += 1
            path[length] = node
        for at in range(length, -1, -1):
            value = -value
            tree.visits[path[at]] += 1
            tree.total[path[at]] += value
    return times


@compiled
def reroot(node: int, tree: Tree, columns: int) -> None:
    """Make this node the root and drop all nodes that are not below it, in place; children come after their parents."""
    used = tree.register[USED]
    place = tree.path  # used as a work array: the new index of each node, plus one
    for at in range(used):
        place[at] = 0
    place[node] = 1
    free = 0
    for at in range(node, used):
        if place[at] == 0:
            continue
        place[at] = free + 1
        for column in range(columns):
            child = tree.child[at * columns + column]
            if child:
                place[child] = 1
            tree.child[free * columns + column] = child
        tree.visits[free] = tree.visits[at]
        tree.total[free] = tree.total[at]
        free += 1
    for at in range(free * columns):
        if tree.child[at]:
            tree.child[at] = place[tree.child[at]] - 1
    for at in range(free, used):
        tree.visits[at] = 0
        tree.total[at] = 0.0
        for column in range(columns):
            tree.child[at * columns + column] = 0
    tree.register[USED] = free


class Mcts:
    """Monte Carlo tree search for boards of one size; it reuses its tree from move to move.

    shape           size of the boards
    exploration     weight of rarely visited moves
    seed            seed of the random games
    nodes           capacity of the tree

    >>> from regard.connectx import Board
    >>> board = Board.from_moves("445566")
    >>> search = Mcts(board.shape, seed=0)
    >>> search.run(board.position, board.mask, simulations=100)
    >>> search.best()
    2
    """

    def __init__(self, shape: Shape, *, exploration: float = 1.0, seed: int = 0, nodes: int = 1 << 18) -> None:
        self.shape, self.exploration = shape, exploration
        self.plain = not fits_in_64_bits(shape) or not hasattr(simulate, "py_func")
        convert: Any = uncompiled if self.plain else lambda function: function
        self._simulate, self._reroot = convert(simulate), convert(reroot)
        nodes = max(64, nodes // 8 if self.plain else nodes)

        def zeros(size: int, kind: type) -> Any:
            return [kind(0)] * size if self.plain else np.zeros(size, kind)

        integer, real = (int, float) if self.plain else (np.int64, np.float64)
        path = zeros(max(nodes, shape.rows * shape.columns + 2), integer)
        self.tree = Tree(
            zeros(nodes * shape.columns, integer), zeros(nodes, integer), zeros(nodes, real), path, zeros(2, integer)
        )
        self.tree.register[USED], self.tree.register[SEED] = 1, 1 + seed % 2147483646
        self._root: tuple[int, int] | None = None
        self._moves = 0

    def run(self, position: int, mask: int, *, simulations: int | None = None, seconds: float | None = None) -> None:
        """Search from this position until the root has `simulations` visits, or the time is over."""
        start = time.perf_counter()
        self._begin(position, mask)
        self._moves = uncompiled(sensible_moves)(position, mask, self.shape)
        if not self._moves:
            raise ValueError("the board is full, so there is no move to choose")
        wanted = None if simulations is None else max(1, simulations - int(self.tree.visits[0]))

        def step(times: int) -> int:
            return int(self._simulate(times, self.tree, position, mask, self._moves, self.exploration, self.shape))

        spent = time.perf_counter() - start  # moving or clearing a large tree takes some milliseconds
        run_in_slices(step, None if seconds is None else max(seconds - spent, 1e-9), wanted)

    def visits(self) -> list[int]:
        """Return the number of visits of each column at the root."""
        children = [int(child) for child in self.tree.child[: self.shape.columns]]
        column = (1 << self.shape.rows) - 1
        legal = [bool(self._moves & column << at * self.shape.stride) for at in range(self.shape.columns)]
        return [int(self.tree.visits[child]) if child and ok else 0 for child, ok in zip(children, legal, strict=True)]

    def best(self) -> int:
        """Return the most visited column."""
        visits = self.visits()
        return visits.index(max(visits))

    def _begin(self, position: int, mask: int) -> None:
        """Make this position the root: keep its part of the tree if there is one, else clear the tree."""
        node = None if self._root is None else self._find(position, mask)
        if node is None:
            # The index after the last node has nothing below it, so this drops all nodes.
            used = int(self.tree.register[USED])
            self._reroot(used, self.tree, self.shape.columns)
            self.tree.register[USED] = 1
        elif node:
            self._reroot(node, self.tree, self.shape.columns)
        self._root = (position, mask)

    def _find(self, position: int, mask: int) -> int | None:
        """Return the node of this position if it is at most two moves below the root."""
        assert self._root is not None
        root_position, root_mask = self._root
        if root_mask & ~mask or (mask ^ root_mask).bit_count() > 2:
            return None
        stride = self.shape.stride
        new = [at // stride for at in range(stride * self.shape.columns) if (mask ^ root_mask) >> at & 1]
        for order in permutations(new):
            here, all_stones, node = root_position, root_mask, 0
            for column in order:
                here ^= all_stones
                all_stones |= all_stones + (1 << column * stride)
                node = int(self.tree.child[node * self.shape.columns + column])
                if not node:
                    break
            else:
                if (here, all_stones) == (position, mask):
                    return node
        return None
