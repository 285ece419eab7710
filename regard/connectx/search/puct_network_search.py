"""PUCT: tree search guided by a policy and a value, over many games at once.

Each game has a tree, and all trees are stored in arrays. A round descends every tree, at each node to the move with the
largest

    Q + c · P · √N / (1 + n)

(P: probability of the move in the policy; Q: mean value of the move, n its visits, N those of the node), evaluates the
leaves of all games in one batch, and adds the values to the nodes passed. If the evaluator also predicts the value of
each move, the prediction counts as the first visit of that move. Values may have weights in the means, for example if
some are more reliable.

The evaluator is not called for positions where a line can be completed at once or two threats of the opponent cannot
both be stopped, nor where an oracle (the solver) or a look ahead of a limited number of positions gives the value. If
just one move does not lose at once, the search plays it and evaluates the position after it. Proven values go up the
tree: a node is won if one of its moves leads to a lost node, and decided if all its moves are decided. Moves that are
proven to lose are not searched again.

Values count for the side to move, from −1 (lost) to 1 (won).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.connectx.game.bitboard import column_squares
from regard.connectx.game.board import Board
from regard.connectx.game.board_batch import checked_shape, free_columns, write_planes
from regard.connectx.search import search_tree

Array = np.ndarray

MIN_WEIGHT = 1e-9  # smallest weight of a value

# (planes (N, 2, rows, columns), legal (N, columns)) → (policy (N, columns), values (N,)) and, optionally, the predicted
# values of the moves (N, columns) in −1 … 1, and the weights of the values (N,), at least MIN_WEIGHT and 1 by default.
Evaluate = Callable[[Array, Array], tuple[Any, ...]]
# Returns the value of a position: −1, 0 or 1 for the side to move.
Oracle = Callable[[Board], int]


class Puct:
    """Search in many games at once.

    boards                  a board for each game, all of one size
    evaluate                function (planes, legal) that returns probabilities of the legal moves and values for a
                            batch of positions, and, if it can, predicted values of the moves
    exploration             weight of the policy against the values
    oracle, oracle_empty    function that returns the exact value of a board, for boards with at most this many empty
                            squares
    look_ahead              number of positions that an exact search from a leaf may visit to prove its value; if it
                            does, the leaf is not evaluated
    width                   number of leaves of each tree that are evaluated in one batch; above 1 it is faster for few
                            games
    nodes                   initial capacity of each tree
    seed                    seed of random moves and noise; None draws one

    >>> def uniform(planes, legal):
    ...     return legal / legal.sum(1, keepdims=True), np.zeros(len(legal))
    >>> search = Puct([Board.from_moves("445566"), Board()], uniform)
    >>> search.run(50)
    >>> search.best().tolist()[0] in (2, 6)
    True
    """

    def __init__(
        self, boards: Sequence[Board], evaluate: Evaluate, *, exploration: float = 1.5, oracle: Oracle | None = None,
        oracle_empty: int = 12, look_ahead: int = 0, width: int = 1, nodes: int = 1024, seed: int | None = None,
    ) -> None:  # fmt: skip
        if not boards:
            raise ValueError("a search needs at least one board, got an empty list")
        self.shape = checked_shape(*boards[0].shape[:3])
        if any(board.shape != self.shape for board in boards):
            raise ValueError("all boards of a search must have the same size")
        self.evaluate, self.exploration, self.oracle, self.oracle_empty = evaluate, exploration, oracle, oracle_empty
        self.look_ahead, self.width = look_ahead, width
        self.random = np.random.default_rng(seed)
        games, columns, squares = len(boards), self.shape.columns, self.shape.rows * self.shape.columns
        self.position = np.array([board.position for board in boards], np.int64)
        self.mask = np.array([board.mask for board in boards], np.int64)
        self.over = np.array([board.over for board in boards])
        self._trees = search_tree.new_trees(games, nodes, columns)
        ends = games * width
        self._leaves = search_tree.Leaves(
            np.full(ends, -1), np.zeros(ends, np.int64), np.zeros((ends, squares + 2), np.int32),
            np.zeros(ends, np.int64), np.zeros(ends, np.int64),
        )  # fmt: skip
        self._planes = np.zeros((ends, 2, self.shape.rows, columns), np.float32)

    def __len__(self) -> int:
        return len(self.mask)

    def run(self, simulations: int, *, noise: float = 0.0, share: float = 0.25) -> None:
        """Run further simulations in each game; `noise` mixes a `share` of Dirichlet(`noise`) into the root priors."""
        any_column, done = np.full(len(self), -1), 0
        if ((self._trees.kind[:, 0] == search_tree.NEW) & ~self.over).any():
            self._round(any_column, 1, only_new_roots=True)
        if noise:
            legal = self.legal()
            draws = self.random.gamma(noise, size=legal.shape) * legal + 1e-12 * legal
            draws /= np.maximum(draws.sum(1, keepdims=True), 1e-12)
            self._trees.prior[:, 0] = (1 - share) * self._trees.prior[:, 0] + share * draws
        while done < simulations:
            self._round(any_column, min(self.width, simulations - done))
            done += min(self.width, simulations - done)

    def run_from(self, columns: Array) -> None:
        """Run one simulation in each game, beginning with the given column of that game."""
        self._round(np.asarray(columns), 1)

    def legal(self) -> Array:
        """Return which columns are legal, (games, columns)."""
        return free_columns(self.mask, self.shape) & ~self.over[:, None]

    def searched_moves(self) -> Array:
        """Return which moves the search considers at the root, (games, columns).

        These are the moves that win at once; if none does, those that do not lose at once; if all lose, all moves.
        """
        columns = np.array([column_squares(column, self.shape) for column in range(self.shape.columns)])
        return self.legal() & (self._trees.moves[:, :1] & columns != 0)

    def visits(self) -> Array:
        """Return the visits of each move at the root, (games, columns)."""
        return self._of_children(self._trees.visits)

    def q(self) -> Array:
        """Return the mean value of each move for the side that plays it, (games, columns); 0 for moves not tried."""
        totals, weights = self._of_children(self._trees.total), self._of_children(self._trees.weight)
        return -totals / np.maximum(weights, MIN_WEIGHT)

    def value(self) -> Array:
        """Return the value of each root for the side to move, (games,)."""
        return self._trees.total[:, 0] / np.maximum(self._trees.weight[:, 0], MIN_WEIGHT)

    def prior(self) -> Array:
        """Return the probability of each move at the root in the policy, (games, columns)."""
        return self._trees.prior[:, 0].astype(np.float64)

    def policy(self, temperature: float = 1.0) -> Array:
        """Return probabilities proportional to visits^(1/temperature), (games, columns); 0 selects the most visited."""
        visits = self.visits().astype(np.float64)
        if temperature == 0:
            visits = (visits == visits.max(1, keepdims=True)) * (visits > 0).astype(np.float64)
        else:
            visits = (visits / np.maximum(visits.max(1, keepdims=True), 1)) ** (1 / temperature)
        return visits / np.maximum(visits.sum(1, keepdims=True), 1e-12)

    def best(self) -> Array:
        """Return the column to play in each game, (games,).

        It is a column that is proven to win; else the most visited one that is not proven to lose; if all are proven to
        lose, one that does not lose at once. Of equally visited columns the one with the better value is returned.
        """
        visits, q = self.visits().astype(np.float64), self.q()
        proven = (self._of_children(self._trees.kind) == search_tree.PROVEN) & (visits > 0)
        rank = visits + (q + 1) / 4 + 1e9 * (proven & (q > search_tree.WIN)) - 1e9 * (proven & (q < -search_tree.WIN))
        return np.argmax(np.where(self.legal(), rank - 2e9 * ~self.searched_moves(), -np.inf), axis=1)

    def play(self, columns: Any) -> None:
        """Play these moves and keep the parts of the trees below them; games that are over do not change."""
        columns = np.asarray(columns)
        allowed = self.legal()[np.arange(len(self)), np.clip(columns, 0, self.shape.columns - 1)]
        illegal = ~self.over & ~(allowed & (columns >= 0) & (columns < self.shape.columns))
        if illegal.any():
            game = int(np.argmax(illegal))
            raise ValueError(f"column {columns[game]} cannot be played in game {game}: {self.board(game)!r}")
        search_tree.play_moves(columns, self.position, self.mask, self.over, self._trees, self.shape)

    def restart(self, game: int, board: Board) -> None:
        """Replace a game by another board."""
        if board.shape != self.shape:
            raise ValueError("all boards of a search must have the same size")
        self.position[game], self.mask[game], self.over[game] = board.position, board.mask, board.over
        trees = self._trees
        for array in (trees.child, trees.visits, trees.total, trees.weight, trees.kind):
            array[game, : trees.used[game]] = 0
        trees.used[game] = 1

    def board(self, game: int) -> Board:
        """Return the current board of a game."""
        return Board.from_bits(int(self.position[game]), int(self.mask[game]), *self.shape[:3], check=False)

    def _of_children(self, values: Array) -> Array:
        children = self._trees.child[:, 0]
        return np.where(children > 0, np.take_along_axis(values, children, axis=1), 0)

    def _reserve(self, simulations: int) -> None:
        """Enlarge the arrays if necessary: a simulation adds one node, and one more for each forced move on its way."""
        nodes = self._trees.visits.shape[1]
        needed = int(self._trees.used.max()) + simulations * self.shape.rows * self.shape.columns
        if needed <= nodes:
            return
        larger = search_tree.new_trees(len(self), max(needed, nodes + nodes // 2), self.shape.columns)
        for old, new in zip(self._trees[:-1], larger[:-1], strict=True):
            new[:, :nodes] = old
        larger.used[:] = self._trees.used
        self._trees = larger

    def _round(self, columns: Array, width: int, only_new_roots: bool = False) -> None:
        """Descend every tree, evaluate the leaves, and add their values to the nodes passed."""
        self._reserve(width)
        leaves, trees = self._leaves, self._trees
        search_tree.descend(
            columns.astype(np.int64), width, self.width, only_new_roots, self.position, self.mask, self.over, trees,
            leaves, self.exploration, self.look_ahead, self.shape,
        )  # fmt: skip
        ends = np.flatnonzero(leaves.node >= 0)
        if self.oracle is not None and len(ends):
            empty = self.shape.rows * self.shape.columns - np.bitwise_count(leaves.mask[ends])
            solvable = ends[(empty <= self.oracle_empty) & (leaves.node[ends] != 0)]  # a root needs its policy
            for end in solvable:
                position, mask = int(leaves.position[end]), int(leaves.mask[end])
                board = Board.from_bits(position, mask, *self.shape[:3], check=False)
                search_tree.set_proven(end, float(np.sign(self.oracle(board))), self.width, trees, leaves, self.shape)
            ends = np.setdiff1d(ends, solvable, assume_unique=True)
        if len(ends):
            planes = self._planes[: len(ends)]
            write_planes(leaves.position[ends], leaves.mask[ends], planes.reshape(len(ends), -1), self.shape)
            legal = free_columns(leaves.mask[ends], self.shape)
            policy, values, *more = (np.asarray(output, np.float64) for output in self.evaluate(planes, legal))
            guesses = more[0] if more else np.full(legal.shape, search_tree.NO_GUESS)
            weights = more[1] if len(more) > 1 else np.ones(len(ends))
            if policy.shape != legal.shape or values.size != len(ends):
                raise ValueError(
                    f"evaluate must return a policy of shape {legal.shape} and {len(ends)} values, "
                    f"got {policy.shape} and {values.shape}"
                )
            priors = np.maximum(policy, 1e-12) * legal
            priors /= priors.sum(1, keepdims=True)
            search_tree.expand(ends, priors, guesses, values.reshape(-1), weights, self.width, trees, leaves)
