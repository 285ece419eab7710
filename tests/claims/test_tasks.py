"""Tasks, models and training loop of the experiments."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.claims.experiments import connectx_attention as board
from regard.claims.experiments import mask, not_only_nlp, positions, rnn_vs_transformer
from regard.claims.experiments.computed.errata import ITEMS as ERRATA
from regard.claims.experiments.heads_not_speed import OFFSETS, make_batch, map_distance
from regard.claims.experiments.learned_mean import FixedWeights
from regard.claims.experiments.softmax import WAYS
from regard.claims.tasks.fit import fit, match_parameters, parameter_count
from regard.claims.tasks.retrieval import ITEMS, majority, retrieval
from regard.connectx import Board, Solver
from regard.models import attention_pattern


def test_fit_returns_evenly_spaced_evaluations() -> None:
    line = nn.Linear(1, 1)
    evaluations = fit(line, lambda: line.weight.square().sum(), 10, evaluations=5, score=lambda: float(line.training))
    assert [one.step for one in evaluations] == [2, 4, 6, 8, 10]
    assert all(one.score == 0 for one in evaluations)  # measured in eval mode
    assert evaluations[-1].seconds >= evaluations[0].seconds
    with pytest.raises(ValueError, match="evaluations must be between 1 and the number of steps, 2, got 3"):
        fit(line, lambda: line.weight.sum(), 2, evaluations=3)


@given(st.integers(1, 5000))
def test_nearest_parameter_count_is_found(target: int) -> None:
    model = match_parameters(lambda width: nn.Linear(width, 7), target, range(1, 64))
    assert abs(parameter_count(model) - target) == min(abs(7 * width + 7 - target) for width in range(1, 64))


def test_retrieval_and_majority() -> None:
    items = retrieval(50)
    assert all(len(set(row.tolist())) == ITEMS for row in items.keys)
    most = majority(50)
    for row, answer in zip(most.values.tolist(), most.answer.tolist(), strict=True):
        assert row.count(answer) == max(row.count(value) for value in row)


def test_fixed_weights_do_not_depend_on_the_scores() -> None:
    fixed = FixedWeights(learned=False)
    one, other = fixed(torch.randn(3, ITEMS)), fixed(torch.randn(3, ITEMS))
    assert torch.equal(one, other)
    assert not list(filter(lambda p: p.requires_grad, fixed.parameters()))
    scores = torch.randn(4, 9)
    for name, weigh in WAYS.items():
        weights = weigh(scores)
        assert (weights >= 0).all(), name
        assert torch.equal(weights.argmax(-1), scores.argmax(-1)), name


def test_tokens_are_sums_of_the_two_before() -> None:
    tokens = mask.sequences(20, 12)
    assert torch.equal(tokens[:, 2:], (tokens[:, 1:-1] + tokens[:, :-2]) % mask.MODULUS)


def test_sorting_and_previous_token() -> None:
    tokens, targets = positions.previous_token_task(5, 6)
    assert torch.equal(targets[:, 1:], tokens[:, :-1])
    tokens, targets = positions.sort_task(5, 6)
    assert (targets.diff(dim=1) >= 0).all()
    assert torch.equal(tokens.sort(1).values, targets)


def test_answers_of_the_recall_tasks() -> None:
    tokens, targets = rnn_vs_transformer.distant_value_task(8, 5)
    assert tokens.shape == targets.shape == (8, 7)
    assert torch.equal(targets[:, -1], tokens[:, 0])
    assert (targets[:, :-1] == -100).all()
    tokens, targets = rnn_vs_transformer.recall_task(8, 16)
    for row, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        latest = {token // 4: token % 4 for token in row[:12]}
        assert answers == [-100] * 12 + [latest.get(question - 16, -100) for question in row[12:]]
    tokens, targets = rnn_vs_transformer.delay_task(8, 7)
    assert torch.equal(targets[:, 4:], tokens[:, :3])
    assert (targets[:, :4] == -100).all()


def test_sequential_steps_grow_with_the_length_only_in_the_lstm() -> None:
    rows = rnn_vs_transformer._count_steps({"lengths": [4, 16]})
    steps = {(row["model"], row["length"]): row["steps"] for row in rows}
    assert steps["Transformer", 4] == steps["Transformer", 16]
    assert steps["LSTM", 16] - steps["LSTM", 4] >= 12


def test_transformer_and_lstm_have_as_many_parameters() -> None:
    counts = [
        sum(p.numel() for p in rnn_vs_transformer.make_model(kind, 17, 64, 32).parameters())
        for kind in rnn_vs_transformer.MODELS
    ]
    assert abs(counts[0] / counts[1] - 1) < 0.03


def test_labels_of_boards_with_four_in_a_row() -> None:
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


def test_relations_and_distances_between_maps() -> None:
    tokens, targets = make_batch(3)
    for at, offset in enumerate(OFFSETS):
        assert torch.equal(targets[:, 4, at], tokens[:, (4 + offset) % tokens.shape[1]])
    same, other = torch.eye(4).expand(2, 4, 4), torch.stack([torch.eye(4), torch.eye(4).roll(1, 0)])
    assert map_distance(same) == 0
    assert map_distance(other) == 1
    assert map_distance(same[:1]) is None


def test_positions_are_labelled_by_the_solver() -> None:
    planes, legal, keeping, result, *_ = board.solved_positions("6×7, 4", 12, (26, 30), 0)
    solver = Solver(table_bits=20)
    for at in range(12):
        own, theirs = (
            sum(1 << (c * 7 + 5 - r) for r in range(6) for c in range(7) if plane[r, c]) for plane in planes[at]
        )
        scores = solver.scores(Board.from_bits(own, own | theirs, check=False))
        assert [score is not None for score in scores] == legal[at].tolist()
        signs = [None if score is None else (score > 0) - (score < 0) for score in scores]
        best = max(sign for sign in signs if sign is not None)
        assert [sign == best for sign in signs] == keeping[at].tolist()
        assert result[at] == best


def test_open_lines_are_found() -> None:
    planes = np.zeros((2, 6, 7))
    assert board.open_line(planes, 4) == (4, 0)
    planes[1, 3:, 2] = 1
    assert board.open_line(planes, 4) == (1, 4)
    planes = np.zeros((2, 6, 7))
    for column, height in ((1, 1), (2, 2), (4, 4)):
        planes[1, 6 - height :, column] = 1
        planes[:, 6 - height, column] = (1, 0)
    planes[0, 4:, 3] = (0, 0)
    planes[1, 4:, 3] = 1  # the stone on them completes a rising line
    assert board.open_line(planes, 4) == (2, 4)


def test_directional_alibi_tells_left_from_right() -> None:
    bias = positions.DirectionalAlibi(2)
    heads, distance = torch.arange(2)[:, None], torch.tensor([-1, 1])  # a key to the right, a key to the left
    right_minus_left = bias.values(heads, distance) @ torch.tensor([1.0, -1.0])
    assert right_minus_left[0] < 0 < right_minus_left[1]


def test_heads_that_follow_lines_are_recognised() -> None:
    square = torch.arange(42)
    king = torch.maximum((square[:, None] // 7 - square // 7).abs(), (square[:, None] % 7 - square % 7).abs())
    near = 0.5 ** king.float()  # nearer squares get more weight, in every direction
    rows = board.weight_along_lines(torch.stack([attention_pattern("row", 6, 7).float(), near]), 200)
    row_head = {row["direction"]: row for row in rows if row["head"] == 0}
    assert row_head["row"]["ratio"] > board.STRONG
    assert row_head["row"]["p"] < 0.01
    assert all(row_head[direction]["mass"] == 0 for direction in ("column", "rising", "falling"))
    for row in rows[4:]:
        assert row["p"] > 0.9
        assert abs(row["ratio"] - 1) < 1e-3


def test_list_of_errors_is_complete() -> None:
    assert {number for number, _, _ in ERRATA} == set(range(1, 12))
