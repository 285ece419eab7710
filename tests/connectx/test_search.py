"""Alpha-beta and MCTS: exact on small boards, and within their time."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.connectx import AlphaBeta, Board, Mcts, Solver
from regard.connectx.search.alpha_beta import PROVEN, WIN
from regard.connectx.search.time_budget import run_in_slices
from support import plain_connectx as plain

SIZE = (4, 4, 3)


def some_board(seed: int, size: tuple[int, int, int] = SIZE, fewest: int = 0) -> Board:
    """Return the board of an unfinished game."""
    lot = random.Random(seed)
    while True:
        board = Board(*size)
        for _ in range(lot.randrange(fewest, size[0] * size[1])):
            if board.over:
                break
            board = board.play(lot.choice(board.legal))
        if not board.over and board.stones >= fewest:
            return board


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_alpha_beta_finds_exact_values(seed: int) -> None:
    board = some_board(seed)
    truth = plain.scores(plain.grid_of(board.kaggle(), 4, 4), 3, board.stones)
    best = max(score for score in truth if score is not None)
    found = AlphaBeta(board.shape).run(board.position, board.mask)
    assert found.proven
    assert truth[found.column] == best
    if best:
        # WIN − n with the board's n-th stone, against (17 − stones before it) // 2 with the player's own.
        last = WIN - abs(found.value)
        assert (17 - (last - 1)) // 2 == abs(best)
        assert (found.value > 0) == (best > 0)
    else:
        assert found.value == 0


@pytest.mark.parametrize("seed", [10, *range(5)])  # with the tenth, a later win was once called the soonest
def test_proven_values_are_exact(seed: int) -> None:
    """A kept table holds wins from beyond the depth: they are wins, but perhaps not the soonest."""
    board = some_board(seed, (6, 7, 4), 14)
    search, solver = AlphaBeta(board.shape), Solver(table_bits=20)
    moves = sorted(board.legal, key=lambda column: abs(column - 3))
    boards = [after for after in map(board.play, moves) if not after.over]
    found = [search.run(after.position, after.mask, depth=14).score(42) for after in boards]
    assert any(score is not None for score in found)
    for after, score in zip(boards, found, strict=True):
        assert score in (None, solver.score(after)), str(after)


def test_plain_python_gives_the_same_results() -> None:
    for seed in range(5):
        board = some_board(seed, (6, 7, 4), 6)
        fast, slow = (AlphaBeta(board.shape, plain=plain_) for plain_ in (False, True))
        for depth in (1, 4):
            assert fast.run(board.position, board.mask, depth=depth) == slow.run(
                board.position, board.mask, depth=depth
            )


def test_an_interrupted_search_continues_to_the_same_result() -> None:
    board = Board.from_moves("4453")
    search = AlphaBeta(board.shape)
    whole = search.run(board.position, board.mask, depth=7)
    bits = AlphaBeta(board.shape)
    step = bits._step
    bits._step = lambda nodes: step(min(nodes, 3)) + nodes - min(nodes, 3) if not bits.stack.register[7] else nodes - 1  # type: ignore[method-assign]
    assert bits.run(board.position, board.mask, depth=7) == whole


def test_a_tiny_budget_still_gives_a_move() -> None:
    board = Board.from_moves("4453")
    found = AlphaBeta(board.shape).run(board.position, board.mask, seconds=1e-9)
    assert found.column in board.legal
    search = Mcts(board.shape)
    search.run(board.position, board.mask, seconds=1e-9)
    assert search.best() in board.legal


def test_slices_stop_at_the_limits() -> None:
    asked: list[int] = []

    def step(units: int) -> int:
        asked.append(units)
        return units if sum(asked) < 5000 else units - 1

    assert run_in_slices(step, None) == sum(asked) - 1
    assert run_in_slices(lambda units: units, None, most=77) == 77


@pytest.mark.parametrize(("moves", "columns"), [("112233", {3}), ("12131", {0}), ("44335", {1, 5})])
def test_mcts_wins_and_blocks(moves: str, columns: set[int]) -> None:
    board = Board.from_moves(moves)
    search = Mcts(board.shape, seed=1)
    search.run(board.position, board.mask, simulations=400)
    assert search.best() in columns


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_mcts_converges_to_exact_values(seed: int) -> None:
    board = some_board(seed, fewest=5)
    truth = plain.scores(plain.grid_of(board.kaggle(), 4, 4), 3, board.stones)
    search = Mcts(board.shape, seed=seed)
    search.run(board.position, board.mask, simulations=6000)
    best = max(score for score in truth if score is not None)
    chosen = truth[search.best()]
    assert chosen is not None
    assert (chosen > 0) - (chosen < 0) == (best > 0) - (best < 0)


@pytest.mark.parametrize("size", [(6, 7, 4), (8, 9, 4)])
def test_the_tree_below_the_moves_played_is_kept(size: tuple[int, int, int]) -> None:
    board = Board(*size)
    search = Mcts(board.shape, seed=0)
    search.run(board.position, board.mask, simulations=500)
    root = board.columns
    first = search.best()
    child = int(search.tree.child[first])
    below = [int(search.tree.child[child * root + column]) for column in range(root)]
    answers = {column: int(search.tree.visits[node]) for column, node in enumerate(below) if node}
    answer = max(answers, key=lambda column: answers[column])
    after = board.play(first).play(answer)
    search._begin(after.position, after.mask)
    assert search.tree.visits[0] == answers[answer] > 0
    used = int(search.tree.register[0])
    assert 1 < used < 500
    children = [int(c) for c in search.tree.child[: used * root] if c]
    assert sorted(children) == list(range(1, used))  # a tree: each node but the root has one parent
    for at in range(used):
        below = sum(int(search.tree.visits[int(c)]) for c in search.tree.child[at * root : (at + 1) * root] if c)
        assert search.tree.visits[at] - 1 <= below + 1
    search.run(after.position, after.mask, simulations=500)
    assert search.tree.visits[0] == 500
    search.run(0, 0, simulations=10)  # another game: nothing is kept
    assert search.tree.visits[0] == 10


def test_larger_boards() -> None:
    board = Board.from_moves("5566", 9, 9, 4)
    for found in (AlphaBeta(board.shape).run(board.position, board.mask, depth=4),):
        assert found.column in (3, 6)
        assert found.value > PROVEN
    search = Mcts(board.shape, seed=0)
    search.run(board.position, board.mask, simulations=150)
    assert search.best() in (3, 6)
