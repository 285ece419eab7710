"""PUCT: wins, blocks, exact values on small boards, and batches that equal single games."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.connectx import Board, Puct, gumbel_search
from regard.connectx.search.look_ahead import UNKNOWN, look_ahead
from support import plain_connectx as plain

Array = np.ndarray


def softmax(logits: Array, legal: Array) -> Array:
    weights = np.exp(logits) * legal
    return weights / weights.sum(1, keepdims=True)


def uniform(planes: Array, legal: Array) -> tuple[Array, Array]:
    return legal / legal.sum(1, keepdims=True), np.zeros(len(legal))


def arbitrary(planes: Array, legal: Array) -> tuple[Array, Array]:
    """Some function of the position, the same for the same position whatever else is in the batch."""
    flat = planes.reshape(len(planes), -1).astype(np.float64)
    weights = np.random.default_rng(5).normal(size=(flat.shape[1], legal.shape[1] + 1))
    answer = flat @ weights
    return softmax(answer[:, :-1], legal), np.tanh(answer[:, -1] / 4)


def truth(board: Board) -> list[int | None]:
    grid = plain.grid_of(board.kaggle(), board.rows, board.columns)
    return plain.scores(grid, board.inarow, board.stones)


def sign(score: int | None) -> int:
    assert score is not None
    return (score > 0) - (score < 0)


@pytest.mark.parametrize("width", [1, 8])
def test_values_with_larger_weights_count_more(width: int) -> None:
    """The evaluator calls positions with one stone lost, except after column 3; later positions say the opposite."""

    def sure_of_the_next(heavy: float, planes: Array, legal: Array) -> tuple[Array, Array, Array, Array]:
        stones = planes.sum((1, 2, 3))
        third = planes[:, :, -1, 2].sum(1) > 0
        values = np.where(third, -0.9, 0.9) * np.where(stones % 2 == 1, 1, -1) * np.where(stones == 1, 1, -1)
        policy = legal / legal.sum(1, keepdims=True)
        return policy, values, np.zeros(legal.shape), np.where(stones == 1, heavy, 1.0)

    for weight, trusted in ((1.0, False), (1000.0, True)):
        search = Puct([Board()], partial(sure_of_the_next, weight), width=width)
        search.run(160)
        assert (search.best()[0] == 2) == trusted
        assert search.visits().sum() == 160 or width > 1
        assert (search._trees.waiting == 0).all()
    assert search.q()[0, 2] > 0.5


@pytest.mark.parametrize(("moves", "column"), [("112233", 3), ("12131", 0), ("1122331", 3)])
@pytest.mark.parametrize("width", [1, 4])
def test_wins_and_blocks(moves: str, column: int, width: int) -> None:
    search = Puct([Board.from_moves(moves)] * 2, uniform, width=width)
    search.run(200)
    assert search.best().tolist() == [column, column]
    chosen = gumbel_search(Puct([Board.from_moves(moves)], uniform, seed=1), 64, noise=0)
    assert chosen.columns.tolist() == [column]
    assert chosen.policy.argmax(1).tolist() == [column]


def test_predicted_values_of_moves_count_as_their_first_visit() -> None:
    guesses = np.array([-0.9, -0.9, 0.5, -0.9, -0.9, -0.9, -0.9])

    def guesses_moves(planes: Array, legal: Array) -> tuple[Array, Array, Array]:
        return *uniform(planes, legal), np.tile(guesses, (len(legal), 1))

    search = Puct([Board()], guesses_moves)
    search.run(4)
    assert search.visits()[0].tolist() == [0, 0, 4, 0, 0, 0, 0]
    # A guess is one visit and no more: what is found counts for more in the end.
    search = Puct([Board.from_moves("445566")], guesses_moves)  # 3 and 7 win; the guess favours 3
    search.run(50)
    assert search.best()[0] in (2, 6)
    board = Board.from_moves("12131")  # the first column must be blocked
    search = Puct([board], guesses_moves)
    search.run(50)
    assert search.best()[0] == 0


@settings(max_examples=8)
@given(st.integers(0, 10**6))
def test_the_search_converges_to_exact_values_on_small_boards(seed: int) -> None:
    lot = np.random.default_rng(seed)
    boards = []
    while len(boards) < 4:
        board = Board(4, 4, 3)
        while board.stones < 5 and not board.over:
            board = board.play(int(lot.choice(board.legal)))
        if not board.over:
            boards.append(board)
    search = Puct(boards, uniform)
    search.run(2000)
    for board, column, value in zip(boards, search.best(), search.value(), strict=True):
        scores = truth(board)
        best = max(score for score in scores if score is not None)
        assert sign(scores[column]) == sign(best)
        if best:
            assert sign(best) * value > 0.3


def test_a_batch_equals_single_games() -> None:
    boards = [Board.from_moves(moves) for moves in ("", "4", "44", "445566", "1234567", "123")]
    together = Puct(boards, arbitrary)
    together.run(120)
    for at, board in enumerate(boards):
        alone = Puct([board], arbitrary)
        alone.run(120)
        assert (alone.visits()[0] == together.visits()[at]).all()
        assert np.allclose(alone.q()[0], together.q()[at])
        assert alone.visits().sum() == 120


def test_counts_add_up_whatever_the_width() -> None:
    search = Puct([Board()] * 3, arbitrary, width=8)
    search.run(256)
    visits = search.visits().sum(1)
    assert (visits <= 256).all()  # two walks of one round that meet at a leaf count once
    assert (visits > 150).all()
    assert (search._trees.waiting == 0).all()
    assert (search._trees.visits[:, 0] == visits + 1).all()


def test_evaluations_come_in_large_batches() -> None:
    sizes: list[int] = []

    def counted(planes: Array, legal: Array) -> tuple[Array, Array]:
        sizes.append(len(planes))
        assert planes.shape == (len(planes), 2, 6, 7)
        assert planes.dtype == np.float32
        return uniform(planes, legal)

    Puct([Board()] * 50, counted).run(30)
    assert len(sizes) == 31
    assert sizes == [50] * 31


def test_the_tree_below_the_moves_played_is_kept() -> None:
    search = Puct([Board(), Board.from_moves("4")], arbitrary)
    search.run(300)
    visits, q, best = search.visits(), search.q(), search.best()
    search.play(best)
    assert search.board(0) == Board().play(int(best[0]))
    kept = search._trees.visits[:, 0]
    assert (kept == visits[np.arange(2), best]).all()
    assert np.allclose(search.value(), -q[np.arange(2), best])
    before = search.visits().sum(1)
    assert (before == kept - 1).all()
    search.run(50)
    assert (search.visits().sum(1) == before + 50).all()
    search.evaluate = uniform
    search.restart(0, Board.from_moves("112233"))
    search.run(100)
    assert search.best()[0] == 3


def test_whole_games_are_played_to_their_end() -> None:
    search = Puct([Board(4, 5, 3)] * 20, arbitrary, seed=0)
    for _ in range(20):
        if search.over.all():
            break
        search.run(16, noise=1.0)
        policy = search.policy()
        columns = [
            search.random.choice(5, p=row) if not over else 0 for row, over in zip(policy, search.over, strict=True)
        ]
        search.play(columns)
    assert search.over.all()
    assert all(search.board(game).over for game in range(20))
    visits = search.visits().sum()
    search.run(5)
    assert search.visits().sum() == visits  # games that are over are left alone


def loses_at_once(board: Board, column: int) -> bool:
    """Whether the opponent's next stone wins after this move."""
    after = board.play(column)
    return not after.over and any(after.play(answer).winner for answer in after.legal)


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_the_evaluator_is_not_called_for_decided_positions(seed: int) -> None:
    lot = np.random.default_rng(seed)
    board = Board()
    for _ in range(int(lot.integers(6, 24))):
        after = board.play(int(lot.choice(board.legal)))
        if after.over:
            break
        board = after
    asked: list[Board] = []

    def evaluate(planes: Array, legal: Array) -> tuple[Array, Array]:
        for own, other in planes.astype(int):
            turn = 1 if own.sum() == other.sum() else 2
            asked.append(Board.from_kaggle((turn * own + (3 - turn) * other).reshape(-1).tolist(), 6, 7, 4))
        return arbitrary(planes, legal)

    search = Puct([board], evaluate)
    search.run(60)
    assert asked[0] == board  # a root is asked about whatever it is
    for one in asked[1:]:
        assert not any(one.play(column).winner for column in one.legal)
        assert sum(not loses_at_once(one, column) for column in one.legal) > 1
    wins = [column for column in board.legal if board.play(column).winner]
    safe = [column for column in board.legal if not loses_at_once(board, column)]
    assert search.best()[0] in (wins or safe or board.legal)


def test_a_sequence_of_forced_moves_takes_one_simulation() -> None:
    search = Puct([Board.from_moves("4455")], uniform)
    search.run(7)  # 3 or 6 makes an open three: to have tried it is to know that it wins
    assert search.best()[0] in (2, 5)
    assert search.q()[0, search.best()[0]] == 1
    # What is forced has no policy: as a root it is asked about anew.
    search = Puct([Board.from_moves("445")], uniform)
    search.run(30)
    search.play([0])
    search.play([2])
    search.run(5)
    assert np.allclose(search.prior().sum(), 1)


def test_the_oracle_gives_the_values_of_late_positions() -> None:
    asked: list[Board] = []

    def oracle(board: Board) -> int:
        asked.append(board)
        return max(score for score in truth(board) if score is not None)

    board = Board.from_moves("12132", 4, 4, 4)
    scores = truth(board)
    search = Puct([board], uniform, oracle=oracle, oracle_empty=10)
    search.run(40)
    assert asked
    assert all(16 - one.stones <= 10 for one in asked)
    assert len(set(asked)) == len(asked)  # what is known is not asked again
    best = max(score for score in scores if score is not None)
    assert sign(scores[search.best()[0]]) == sign(best)
    tried = search.visits()[0] > 0
    for column in np.flatnonzero(tried):
        assert search.q()[0, column] == sign(scores[column])


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([1, 20, 100_000]))
def test_a_look_ahead_is_exact_or_unknown(seed: int, most: int) -> None:
    lot, board = np.random.default_rng(seed), Board(4, 4, 3)
    while board.stones < 4 + seed % 8 and not board.over:
        board = board.play(int(lot.choice(board.legal)))
    if board.over:
        return
    value = look_ahead(board.position, board.mask, most, board.shape)
    best = max(score for score in truth(board) if score is not None)
    assert value == sign(best) or (value == UNKNOWN and most < 100_000)


def test_a_look_ahead_proves_leaves_without_the_evaluator() -> None:
    evaluated: list[int] = []

    def count(planes: Array, legal: Array) -> tuple[Array, Array]:
        evaluated.append(len(planes))
        return uniform(planes, legal)

    board = Board.from_moves("1134", 4, 4, 3)
    search = Puct([board], count, look_ahead=10_000)
    search.run(40)
    assert sum(evaluated) == 1  # the root, which needs a policy
    scores = truth(board)
    assert sign(scores[search.best()[0]]) == max(sign(score) for score in scores if score is not None)


def test_gumbel_with_few_simulations_improves_on_the_policy() -> None:
    def prefers_the_edge(planes: Array, legal: Array) -> tuple[Array, Array]:
        return softmax(np.arange(legal.shape[1]) * 0.5, legal), np.zeros(len(legal))

    board = Board.from_moves("112233")  # column 3 wins, and the policy likes column 6
    games = 200
    search = Puct([board] * games, prefers_the_edge, seed=3)
    chosen = gumbel_search(search, 8, considered=7)
    prior = search.prior()[0]
    assert (chosen.columns == 3).mean() > 0.9
    assert (chosen.policy[:, 3] > prior[3]).all()
    assert np.allclose(chosen.policy.sum(1), 1)
    assert (search.visits().sum(1) == 8).all()


def test_gumbel_considers_a_limited_number_of_moves() -> None:
    search = Puct([Board()] * 30, arbitrary, seed=0)
    gumbel_search(search, 16, considered=4)
    visits = search.visits()
    assert ((visits > 0).sum(1) == 4).all()
    assert (visits.sum(1) == 16).all()
    assert (np.sort(visits, axis=1)[:, -2:].sum(1) >= 12).all()  # the better two got more


def test_gumbel_samples_from_the_policy_if_all_values_are_equal() -> None:
    def skewed(planes: Array, legal: Array) -> tuple[Array, Array]:
        return np.tile([[0.6, 0.3, 0.1]], (len(legal), 1)), np.zeros(len(legal))

    games = 4000
    chosen = gumbel_search(Puct([Board(4, 3, 4)] * games, skewed, seed=0), 1)
    shares = np.bincount(chosen.columns, minlength=3) / games
    assert np.abs(shares - [0.6, 0.3, 0.1]).max() < 0.03  # four standard deviations


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Puct([], uniform), "at least one board"),
        (lambda: Puct([Board(), Board(5)], uniform), "must have the same size"),
        (lambda: Puct([Board(9, 9)], uniform), "≤ 64"),
        (
            lambda: Puct([Board()], lambda planes, legal: (np.zeros(3), np.zeros(1))).run(1),
            "evaluate must return a policy of shape (1, 7)",
        ),
        (lambda: Puct([Board.from_moves("444444")], uniform).play([3]), "column 3 cannot be played in game 0"),
        (lambda: Puct([Board()], uniform).restart(0, Board(5)), "must have the same size"),
        (lambda: gumbel_search(Puct([Board()], uniform), 0), "at least 1, got 0"),
    ],
)
def test_bad_input(wrong: object, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        wrong()  # type: ignore[operator]
    assert message in str(error.value)
