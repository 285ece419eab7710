"""Tree search led by a policy and a value, over many games at once.

Each game has its tree, all in arrays. One round walks down every tree, at each node to the move with the largest

    Q + c · P · √N / (1 + n)

(P: what the policy gives the move; Q: the mean value found for it, n its visits, N those of the node), gathers the
leaves of all games into one batch for the network, and counts the values back up. Nobody is asked where a line can be
completed at once or two of the opponent's cannot both be stopped, nor where an oracle (the solver) knows the position;
where just one move does not lose at once it is made, and what follows is looked at instead. What is known goes up the
tree: a node is won when one of its moves leads to a lost one, and decided when all its moves are; moves known to lose
are not walked again.

Values count for the side to move, from −1 (lost) to 1 (won).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.connectx.batch import checked_shape, free_columns, write_planes
from regard.connectx.bits import Shape, aligned, column_bits, completing, possible
from regard.connectx.board import Board
from regard.connectx.compiled import compiled

Array = np.ndarray

# Planes (N, 2, rows, columns) and legal (N, columns) in, policy logits (N, columns) and values (N,) out.
Evaluate = Callable[[Array, Array], tuple[Any, Any]]
# The value of a position, −1, 0 or 1 for the side to move.
Oracle = Callable[[Board], int]

NEW, WAITING, GROWN, KNOWN, FORCED = 0, 1, 2, 3, 4  # what a node is; FORCED has one move, and no policy
OPEN = 2.0  # instead of a value: nothing to be seen at a glance
SURE = 1 - 1e-9  # the mean of values that are all 1


class Forest(NamedTuple):
    """A tree for each game: arrays (games, nodes) and (games, nodes, columns). Child 0 means none."""

    child: Array
    prior: Array
    moves: Array  # the squares that are walked: all possible ones, or those that win or do not lose at once
    visits: Array
    total: Array  # the sum of values, for the side to move at the node
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


class Puct:
    """Search in many games at once.

    `evaluate(planes, legal)` gives policy logits and values for a batch of positions. `oracle(board)` gives the exact
    value of positions with at most `oracle_empty` empty squares. With few games, `width` > 1 gathers several leaves of
    each tree in one batch.

    >>> def knows_nothing(planes, legal):
    ...     return np.zeros(legal.shape), np.zeros(len(legal))
    >>> search = Puct([Board.from_moves("445566"), Board()], knows_nothing)
    >>> search.run(50)
    >>> search.best().tolist()[0] in (2, 6)
    True
    """

    def __init__(
        self,
        boards: Sequence[Board],
        evaluate: Evaluate,
        *,
        explore: float = 1.5,
        oracle: Oracle | None = None,
        oracle_empty: int = 12,
        width: int = 1,
        nodes: int = 1024,
        seed: int | None = None,
    ) -> None:
        if not boards:
            raise ValueError("a search needs at least one board")
        self.shape = checked_shape(*boards[0].shape[:3])
        if any(board.shape != self.shape for board in boards):
            raise ValueError("the boards of a search are of one size")
        self.evaluate, self.explore, self.oracle, self.oracle_empty = evaluate, explore, oracle, oracle_empty
        self.width = width
        self.random = np.random.default_rng(seed)
        games, columns, squares = len(boards), self.shape.columns, self.shape.rows * self.shape.columns
        self.position = np.array([board.position for board in boards], np.int64)
        self.mask = np.array([board.mask for board in boards], np.int64)
        self.over = np.array([board.over for board in boards])
        self._forest = _planted(games, nodes, columns)
        ends = games * width
        self._leaves = Leaves(
            np.full(ends, -1), np.zeros(ends, np.int64), np.zeros((ends, squares + 2), np.int32),
            np.zeros(ends, np.int64), np.zeros(ends, np.int64),
        )  # fmt: skip
        self._planes = np.zeros((ends, 2, self.shape.rows, columns), np.float32)

    def __len__(self) -> int:
        return len(self.mask)

    def run(self, simulations: int, *, noise: float = 0.0, share: float = 0.25) -> None:
        """So many further walks in each game; a `share` of the roots' priors is Dirichlet noise, α = `noise`."""
        self._grow_roots()
        if noise:
            legal = self.legal()
            draws = self.random.gamma(noise, size=legal.shape) * legal + 1e-12 * legal
            draws /= np.maximum(draws.sum(1, keepdims=True), 1e-12)
            self._forest.prior[:, 0] = (1 - share) * self._forest.prior[:, 0] + share * draws
        free, done = np.full(len(self), -1), 0
        while done < simulations:
            self._round(free, min(self.width, simulations - done))
            done += min(self.width, simulations - done)

    def forced(self, columns: Array) -> None:
        """One walk in each game that begins with this column."""
        self._round(np.asarray(columns), 1)

    def legal(self) -> Array:
        """(games, columns): what may be played."""
        return free_columns(self.mask, self.shape) & ~self.over[:, None]

    def visits(self) -> Array:
        """(games, columns): how often each move was tried at the root."""
        return self._of_children(self._forest.visits)

    def q(self) -> Array:
        """(games, columns): the mean value of each move for the side that plays it; 0 where it was not tried."""
        totals, visits = self._of_children(self._forest.total), self.visits()
        return -totals / np.maximum(visits, 1)

    def value(self) -> Array:
        """(games,): the value of each root for the side to move."""
        return self._forest.total[:, 0] / np.maximum(self._forest.visits[:, 0], 1)

    def prior(self) -> Array:
        """(games, columns): what the policy gives each move at the root."""
        return self._forest.prior[:, 0].astype(np.float64)

    def policy(self, temperature: float = 1.0) -> Array:
        """(games, columns): moves in proportion to visits^(1/temperature); temperature 0 takes the most visited."""
        visits = self.visits().astype(np.float64)
        if temperature == 0:
            visits = (visits == visits.max(1, keepdims=True)) * (visits > 0).astype(np.float64)
        else:
            visits = (visits / np.maximum(visits.max(1, keepdims=True), 1)) ** (1 / temperature)
        return visits / np.maximum(visits.sum(1, keepdims=True), 1e-12)

    def best(self) -> Array:
        """(games,): a column known to win; else the most visited one that is not known to lose, or not at once. Among
        equals the one with the better value."""
        visits, q = self.visits().astype(np.float64), self.q()
        known = (self._of_children(self._forest.kind) == KNOWN) & (visits > 0)
        worth = visits + (q + 1) / 4 + 1e9 * (known & (q > SURE)) - 1e9 * (known & (q < -SURE))
        columns = np.array([column_bits(column, self.shape) for column in range(self.shape.columns)])
        walked = self._forest.moves[:, :1] & columns != 0  # the others are worse
        return np.argmax(np.where(self.legal(), worth - 2e9 * ~walked, -np.inf), axis=1)

    def play(self, columns: Any) -> None:
        """Make these moves and keep what the trees know of what follows; games that are over stay."""
        columns = np.asarray(columns)
        allowed = self.legal()[np.arange(len(self)), np.clip(columns, 0, self.shape.columns - 1)]
        wrong = ~self.over & ~(allowed & (columns >= 0) & (columns < self.shape.columns))
        if wrong.any():
            game = int(np.argmax(wrong))
            raise ValueError(f"column {columns[game]} cannot be played in game {game}: {self.board(game)!r}")
        _play(columns, self.position, self.mask, self.over, self._forest, self.shape)

    def begin(self, game: int, board: Board) -> None:
        """Put another board in the place of a game."""
        if board.shape != self.shape:
            raise ValueError("the boards of a search are of one size")
        self.position[game], self.mask[game], self.over[game] = board.position, board.mask, board.over
        for array in (self._forest.child, self._forest.visits, self._forest.total, self._forest.kind):
            array[game, : self._forest.used[game]] = 0
        self._forest.used[game] = 1

    def board(self, game: int) -> Board:
        """The board of a game as it stands."""
        return Board.from_bits(int(self.position[game]), int(self.mask[game]), *self.shape[:3], check=False)

    def _of_children(self, values: Array) -> Array:
        children = self._forest.child[:, 0]
        return np.where(children > 0, np.take_along_axis(values, children, axis=1), 0)

    def _make_room(self, walks: int) -> None:
        """A walk adds a node to its tree, and one for each move that is forced; where they may not fit, the arrays
        grow."""
        nodes = self._forest.visits.shape[1]
        needed = int(self._forest.used.max()) + walks * self.shape.rows * self.shape.columns
        if needed <= nodes:
            return
        larger = _planted(len(self), max(needed, nodes + nodes // 2), self.shape.columns)
        for old, new in zip(self._forest[:-1], larger[:-1], strict=True):
            new[:, :nodes] = old
        larger.used[:] = self._forest.used
        self._forest = larger

    def _grow_roots(self) -> None:
        if ((self._forest.kind[:, 0] == NEW) & ~self.over).any():
            self._round(np.full(len(self), -1), 1, only_new_roots=True)

    def _round(self, columns: Array, width: int, only_new_roots: bool = False) -> None:
        """Walk down every tree, ask about the leaves, count the answers back up."""
        self._make_room(width)
        leaves, forest = self._leaves, self._forest
        _walk(
            columns.astype(np.int64), width, self.width, only_new_roots, self.position, self.mask, self.over, forest,
            leaves, self.explore, self.shape,
        )  # fmt: skip
        asked = np.flatnonzero(leaves.node >= 0)
        if self.oracle is not None and len(asked):
            empty = self.shape.rows * self.shape.columns - np.bitwise_count(leaves.mask[asked])
            roots = leaves.node[asked] == 0
            few = asked[(empty <= self.oracle_empty) & ~roots]  # a root needs its policy
            for at in few:
                board = Board.from_bits(
                    int(leaves.position[at]), int(leaves.mask[at]), *self.shape[:3], check=False
                )  # fmt: skip
                _know(at, float(np.sign(self.oracle(board))), self.width, forest, leaves, self.shape)
            asked = np.setdiff1d(asked, few, assume_unique=True)
        if len(asked):
            positions, masks = leaves.position[asked], leaves.mask[asked]
            planes = self._planes[: len(asked)]
            write_planes(positions, masks, planes.reshape(len(asked), -1), self.shape)
            top = np.arange(self.shape.columns) * self.shape.stride + self.shape.rows - 1
            legal = (masks[:, None] >> top) & 1 == 0
            logits, values = (np.asarray(answer, np.float64) for answer in self.evaluate(planes, legal))
            if logits.shape != legal.shape or values.size != len(asked):
                raise ValueError(
                    f"evaluate must give logits {legal.shape} and {len(asked)} values, "
                    f"got {logits.shape} and {values.shape}"
                )
            logits = np.where(legal, logits, -np.inf)
            priors = np.maximum(np.exp(logits - logits.max(1, keepdims=True)), 1e-12 * legal)
            priors /= priors.sum(1, keepdims=True)
            _grow(asked, priors, values.reshape(-1), self.width, forest, leaves)


def _planted(games: int, nodes: int, columns: int) -> Forest:
    def empty(kind: type, *more: int) -> Array:
        return np.zeros((games, nodes, *more), kind)

    return Forest(
        child=empty(np.int32, columns), prior=empty(np.float32, columns), moves=empty(np.int64), visits=empty(np.int32),
        total=empty(np.float64), waiting=empty(np.int32), kind=empty(np.int8), used=np.ones(games, np.int64),
    )  # fmt: skip


@compiled
def _count_up(game: int, end: int, value: float, forest: Forest, leaves: Leaves) -> None:
    """Count a value, for the side to move at the end of the walk, on all nodes passed; they wait no longer."""
    for at in range(leaves.length[end], -1, -1):
        node = leaves.path[end, at]
        if forest.kind[game, node] == KNOWN and forest.visits[game, node] > 0:  # whatever came of this walk
            value = forest.total[game, node] / forest.visits[game, node]
        forest.visits[game, node] += 1
        forest.total[game, node] += value
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
                    value = max(value, -forest.total[game, child] / forest.visits[game, child])
        if not decided and value < SURE:
            return
        forest.kind[game, node] = KNOWN
        forest.total[game, node] = value * forest.visits[game, node]


@compiled
def _walk(
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
                _count_up(game, end, forest.total[game, node] / forest.visits[game, node], forest, leaves)
                continue
            if value != OPEN:
                forest.kind[game, node] = KNOWN
                _count_up(game, end, value, forest, leaves)
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
    theirs = completing(here ^ stones, shape) & ~stones
    needed = theirs & moves
    kept = (needed if needed else moves) & ~(theirs >> 1)  # no stone under a square where they win
    if kept == 0 or needed & (needed - 1):
        return -1.0, moves
    return OPEN, kept


@compiled
def _chosen(game: int, node: int, forest: Forest, explore: float, shape: Shape) -> int:
    visits = forest.visits[game, node] + forest.waiting[game, node]
    # A move not tried yet is thought to be worth what the node is, a little less with every move tried.
    unknown = (forest.total[game, node] - forest.waiting[game, node]) / max(visits, 1) - 0.2
    spread = explore * np.sqrt(visits)
    chosen, highest = -1, -1e18
    for column in range(shape.columns):
        if not forest.moves[game, node] & column_bits(column, shape):
            continue
        child = forest.child[game, node, column]
        tried = forest.visits[game, child] + forest.waiting[game, child] if child else 0
        value = unknown if tried == 0 else -(forest.total[game, child] + forest.waiting[game, child]) / tried
        upper = value + spread * forest.prior[game, node, column] / (1 + tried)
        if (
            child
            and forest.kind[game, child] == KNOWN
            and forest.total[game, child] > SURE * forest.visits[game, child]
        ):
            upper -= 1e9  # known to lose: only where nothing else is left
        if upper > highest:
            chosen, highest = column, upper
    return chosen


@compiled
def _grow(ends: Array, priors: Array, values: Array, most: int, forest: Forest, leaves: Leaves) -> None:
    for number in range(len(ends)):
        end = ends[number]
        game, node = end // most, leaves.node[end]
        forest.kind[game, node] = GROWN
        for column in range(priors.shape[1]):
            forest.prior[game, node, column] = priors[number, column]
        _count_up(game, end, values[number], forest, leaves)


@compiled
def _know(end: int, value: float, most: int, forest: Forest, leaves: Leaves, shape: Shape) -> None:
    forest.kind[end // most, leaves.node[end]] = KNOWN
    _count_up(end // most, end, value, forest, leaves)
    _prove(end // most, end, forest, leaves, shape)


@compiled
def _play(columns: Array, position: Array, mask: Array, over: Array, forest: Forest, shape: Shape) -> None:
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
                forest.moves[game, free] = forest.moves[game, at]
                forest.visits[game, free] = forest.visits[game, at]
                forest.total[game, free] = forest.total[game, at]
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
            forest.kind[game, at] = NEW
        forest.used[game] = max(free, 1)
