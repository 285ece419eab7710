"""The tasks that experiments train on: the answers are right, and a question can be answered."""

import torch

from regard.claims.experiments import connectx_attention as board
from regard.claims.experiments import mask, not_only_nlp, positions, rnn_vs_transformer
from regard.claims.experiments.errata import ITEMS
from regard.claims.experiments.heads_not_speed import OFFSETS, apart, batch_of
from regard.claims.experiments.learned_mean import ITEMS as SIZE
from regard.claims.experiments.learned_mean import Fixed
from regard.claims.experiments.softmax import WAYS
from regard.claims.tasks.retrieval import majority, retrieval
from regard.connectx import Board, Solver
from regard.models import attention_pattern


def test_retrieval_and_majority() -> None:
    found = retrieval(50, 16)
    assert all(len(set(row.tolist())) == 16 for row in found.keys)
    most = majority(50, 16)
    for row, answer in zip(most.values.tolist(), most.answer.tolist(), strict=True):
        assert row.count(answer) == max(row.count(value) for value in row)


def test_weights_that_are_fixed_do_not_see_the_scores() -> None:
    fixed = Fixed(learned=False)
    one, other = fixed(torch.randn(3, SIZE)), fixed(torch.randn(3, SIZE))
    assert torch.equal(one, other)
    assert not list(filter(lambda p: p.requires_grad, fixed.parameters()))
    scores = torch.randn(4, 9)
    for name, weigh in WAYS.items():
        weights = weigh(scores)
        assert (weights >= 0).all(), name
        assert torch.equal(weights.argmax(-1), scores.argmax(-1)), name


def test_sequences_follow_their_rule() -> None:
    tokens = mask.sequences(20, 12)
    assert torch.equal(tokens[:, 2:], (tokens[:, 1:-1] + tokens[:, :-2]) % mask.MODULUS)


def test_orders() -> None:
    tokens, wanted = positions.delay(5, 6)
    assert torch.equal(wanted[:, 1:], tokens[:, :-1])
    tokens, wanted = positions.arrange(5, 6)
    assert (wanted.diff(dim=1) >= 0).all()
    assert torch.equal(tokens.sort(1).values, wanted)


def test_questions_of_the_long_distance() -> None:
    tokens, wanted = rnn_vs_transformer.far(8, 5)
    assert tokens.shape == wanted.shape == (8, 7)
    assert torch.equal(wanted[:, -1], tokens[:, 0])
    assert (wanted[:, :-1] == -100).all()
    tokens, wanted = rnn_vs_transformer.recall(8, 16)
    for row, answer in zip(tokens.tolist(), wanted[:, -1].tolist(), strict=True):
        assert row[row.index(row[-1]) + 1] == answer
    bits, odd = rnn_vs_transformer.parity(8, 5)
    assert torch.equal(odd[:, -1], bits.sum(1) % 2)


def test_equal_parameters_of_transformer_and_lstm() -> None:
    counts = [
        sum(p.numel() for p in rnn_vs_transformer.model_of(kind, 17, 64, 32).parameters())
        for kind in rnn_vs_transformer.MODELS
    ]
    assert abs(counts[0] / counts[1] - 1) < 0.03


def test_boards_with_four_in_a_row_have_them() -> None:
    planes, label = not_only_nlp.boards(60)
    assert set(label.tolist()) == {0, 1}
    for stones, won in zip(planes[:, 0], label.tolist(), strict=True):
        lines = [
            all(0 <= r + n * dr < 6 and 0 <= c + n * dc < 7 and stones[r + n * dr, c + n * dc] == 1 for n in range(4))
            for r in range(6)
            for c in range(7)
            for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1))
        ]
        assert any(lines) == bool(won)


def test_the_four_relations() -> None:
    tokens, wanted = batch_of(3)
    for at, offset in enumerate(OFFSETS):
        assert torch.equal(wanted[:, 4, at], tokens[:, (4 + offset) % tokens.shape[1]])
    same, other = torch.eye(4).expand(2, 4, 4), torch.stack([torch.eye(4), torch.eye(4).roll(1, 0)])
    assert apart(same) == 0
    assert apart(other) == 1
    assert apart(same[:1]) is None


def test_positions_are_labelled_as_the_solver_says() -> None:
    planes, legal, kept, result = board.positions(12, 28, 0)
    solver = Solver(table_bits=20)
    for at in range(12):
        own, theirs = (
            sum(1 << (c * 7 + 5 - r) for r in range(6) for c in range(7) if plane[r, c]) for plane in planes[at]
        )
        scores = solver.scores(Board.from_bits(own, own | theirs, check=False))
        assert [score is not None for score in scores] == legal[at].tolist()
        signs = [None if score is None else (score > 0) - (score < 0) for score in scores]
        best = max(sign for sign in signs if sign is not None)
        assert [sign == best for sign in signs] == kept[at].tolist()
        assert result[at] == best


def test_heads_that_follow_lines_are_told_from_those_that_do_not() -> None:
    square = torch.arange(42)
    king = torch.maximum((square[:, None] // 7 - square // 7).abs(), (square[:, None] % 7 - square % 7).abs())
    near = 0.5 ** king.float()  # nearer squares get more, whatever the direction
    rows = board.along_lines(torch.stack([attention_pattern("row", 6, 7).float(), near]), 200)
    row_head = {row["direction"]: row for row in rows if row["head"] == 0}
    assert row_head["row"]["ratio"] > board.STRONG
    assert row_head["row"]["p"] < 0.01
    assert all(row_head[direction]["mass"] == 0 for direction in ("column", "rising", "falling"))
    for row in rows[4:]:
        assert row["p"] > 0.9
        assert abs(row["ratio"] - 1) < 1e-3


def test_the_list_of_errors_is_whole() -> None:
    assert {number for number, _, _ in ITEMS} == set(range(1, 12))
