"""Tree search led by a policy and a value, over many games at once.

Each game has its tree, all in arrays. One round walks down every tree, at each node to the move with the largest

    Q + c · P · √N / (1 + n)

(P: what the policy gives the move; Q: the mean value found for it, n its visits, N those of the node), gathers the
leaves of all games into one batch for the network, and counts the values back up. A network that also says what each
move is worth has looked a move ahead for nothing: its guess counts as the first visit. Values that somebody is surer of
weigh more in the means.

Nobody is asked where a line can be completed at once or two of the opponent's cannot both be stopped, nor where an
oracle (the solver) knows the position; where just one move does not lose at once it is made, and what follows is looked
at instead. What is known goes up the tree: a node is won when one of its moves leads to a lost one, and decided when
all its moves are; moves known to lose are not walked again.

Values count for the side to move, from −1 (lost) to 1 (won).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.connectx.game.bitboard import column_bits
from regard.connectx.game.board import Board
from regard.connectx.game.board_batch import checked_shape, free_columns, write_planes
from regard.connectx.search.search_tree import KNOWN, NEW, NO_GUESS, SURE, Leaves, grow, know, move_on, planted, walk

Array = np.ndarray

LEAST = 1e-9  # that a value may weigh

# Planes (N, 2, rows, columns) and legal (N, columns) in; policy logits (N, columns) and values (N,) out and, of those
# who can tell, what each move is worth for the side that makes it, (N, columns) in −1 … 1, and what each value weighs
# in a mean, (N,), at least LEAST; 1 unless told.
Evaluate = Callable[[Array, Array], tuple[Any, ...]]
# The value of a position, −1, 0 or 1 for the side to move.
Oracle = Callable[[Board], int]


class Puct:
    """Search in many games at once.

    `evaluate(planes, legal)` gives policy logits and values for a batch of positions, and guesses of what moves are
    worth if it can. `oracle(board)` gives the exact value of positions with at most `oracle_empty` empty squares. With
    few games, `width` > 1 gathers several leaves of each tree in one batch.

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
        self._forest = planted(games, nodes, columns)
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

    def walked(self) -> Array:
        """(games, columns): the moves that walks begin with. What wins at once, if something does; else what does not
        lose at once, or everything if all does."""
        columns = np.array([column_bits(column, self.shape) for column in range(self.shape.columns)])
        grown: Array = self.legal() & (self._forest.moves[:, :1] & columns != 0)
        return grown

    def visits(self) -> Array:
        """(games, columns): how often each move was tried at the root."""
        return self._of_children(self._forest.visits)

    def q(self) -> Array:
        """(games, columns): the mean value of each move for the side that plays it; 0 where it was not tried."""
        totals, weights = self._of_children(self._forest.total), self._of_children(self._forest.weight)
        return -totals / np.maximum(weights, LEAST)

    def value(self) -> Array:
        """(games,): the value of each root for the side to move."""
        return self._forest.total[:, 0] / np.maximum(self._forest.weight[:, 0], LEAST)

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
        return np.argmax(np.where(self.legal(), worth - 2e9 * ~self.walked(), -np.inf), axis=1)

    def play(self, columns: Any) -> None:
        """Make these moves and keep what the trees know of what follows; games that are over stay."""
        columns = np.asarray(columns)
        allowed = self.legal()[np.arange(len(self)), np.clip(columns, 0, self.shape.columns - 1)]
        wrong = ~self.over & ~(allowed & (columns >= 0) & (columns < self.shape.columns))
        if wrong.any():
            game = int(np.argmax(wrong))
            raise ValueError(f"column {columns[game]} cannot be played in game {game}: {self.board(game)!r}")
        move_on(columns, self.position, self.mask, self.over, self._forest, self.shape)

    def begin(self, game: int, board: Board) -> None:
        """Put another board in the place of a game."""
        if board.shape != self.shape:
            raise ValueError("the boards of a search are of one size")
        self.position[game], self.mask[game], self.over[game] = board.position, board.mask, board.over
        forest = self._forest
        for array in (forest.child, forest.visits, forest.total, forest.weight, forest.kind):
            array[game, : forest.used[game]] = 0
        forest.used[game] = 1

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
        larger = planted(len(self), max(needed, nodes + nodes // 2), self.shape.columns)
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
        walk(
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
                know(at, float(np.sign(self.oracle(board))), self.width, forest, leaves, self.shape)
            asked = np.setdiff1d(asked, few, assume_unique=True)
        if len(asked):
            positions, masks = leaves.position[asked], leaves.mask[asked]
            planes = self._planes[: len(asked)]
            write_planes(positions, masks, planes.reshape(len(asked), -1), self.shape)
            top = np.arange(self.shape.columns) * self.shape.stride + self.shape.rows - 1
            legal = (masks[:, None] >> top) & 1 == 0
            logits, values, *told = (np.asarray(answer, np.float64) for answer in self.evaluate(planes, legal))
            guesses = told[0] if told else np.full(legal.shape, NO_GUESS)
            weights = told[1] if len(told) > 1 else np.ones(len(asked))
            if logits.shape != legal.shape or values.size != len(asked):
                raise ValueError(
                    f"evaluate must give logits {legal.shape} and {len(asked)} values, "
                    f"got {logits.shape} and {values.shape}"
                )
            logits = np.where(legal, logits, -np.inf)
            priors = np.maximum(np.exp(logits - logits.max(1, keepdims=True)), 1e-12 * legal)
            priors /= priors.sum(1, keepdims=True)
            grow(asked, priors, guesses, values.reshape(-1), weights, self.width, forest, leaves)
