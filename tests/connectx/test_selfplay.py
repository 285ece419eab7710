"""PPO and AlphaZero: advantages as by hand, games that are real, exact resume, and that something is learnt."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import models, training
from regard.connectx import Board, LabelOptions, label
from regard.connectx.training import run as starting
from regard.connectx.training.alphazero import Buffer, Zero, ZeroOptions
from regard.connectx.training.ppo import Played, Ppo, PpoOptions, advantages
from regard.connectx.training.trial_games import won_against

ALONE = training.Ranks(0, 1, torch.device("cpu"))
CONFIG = models.BoardConfig(channels=16, heads=2, attn_every=2, layers=2, lines=4, norm="group")
SETTINGS = training.Settings(steps=4, batch=64, warmup=0, evaluate_every=2, checkpoint_every=1, threads=1)
PPO = {"games": 16, "moves": 8, "pool_every": 2, "pool_share": 0.5}
ZERO = {"games": 8, "simulations": 4, "fewest": 20, "buffer": 200}


def test_advantages_by_hand() -> None:
    """Two moves of one game: the second wins. The first one's value counts the other way."""
    column = lambda *values: np.array(values, float)[:, None]  # noqa: E731
    zeros = column(0, 0)
    played = Played(zeros, zeros, zeros, zeros, column(0.2, 0.5), column(0, 1), column(0, 1), column(1, 1), zeros)
    found = advantages(played, np.array([0.7]), discount=1.0, trace=0.9)
    second = 1 - 0.5
    first = (0 - 0.5 - 0.2) - 0.9 * second
    assert found[:, 0].tolist() == pytest.approx([first, second])


def test_without_a_trace_only_the_next_value_counts_and_games_end_the_sum() -> None:
    random = np.random.default_rng(0)
    shape = (5, 3)
    over = random.random(shape) < 0.4
    played = Played(*[np.zeros(shape)] * 4, random.normal(size=shape), over * 1.0, over, over, over)
    last = random.normal(size=3)
    found = advantages(played, last, 1.0, 0.0)
    after = np.vstack([played.value[1:], last])
    assert np.allclose(found, played.reward - after * ~over - played.value)


@pytest.fixture
def network() -> models.BoardNet:
    torch.manual_seed(0)
    return models.BoardNet(CONFIG)


def test_ppo_plays_real_games_and_says_what_was_asked_for(network: models.BoardNet) -> None:
    method = Ppo(network, SETTINGS, ALONE, PpoOptions(**PPO))
    rows = [method.update(step, 1e-3, 0.0) for step in range(4)]
    wanted = {"loss", "policy_loss", "value_loss", "entropy", "kl", "clip_share", "explained_variance"}
    assert wanted | {"games_per_second"} <= set(rows[0])
    assert all(np.isfinite(list(row.values())).all() for row in rows)
    assert rows[0]["positions"] == 16 * 8
    assert 1.5 < rows[0]["entropy"] <= np.log(7) + 1e-6
    assert len(method.pool) == 2
    assert (method.opponent >= 0).any()
    for game in range(16):
        board = method.boards[game]
        assert not board.over
        Board.from_bits(board.position, board.mask)  # raises for what no game leads to


def test_the_first_pass_has_no_drift(network: models.BoardNet) -> None:
    method = Ppo(network, SETTINGS, ALONE, PpoOptions(**{**PPO, "epochs": 1, "pool_share": 0.0}))
    row = method.update(0, 0.0, 0.0)
    assert abs(row["kl"]) < 1e-6
    assert row["clip_share"] == 0


def test_batch_norms_are_refused(network: models.BoardNet) -> None:
    with pytest.raises(ValueError, match="batch norms differ"):
        Ppo(models.BoardNet(CONFIG, norm="batch"), SETTINGS, ALONE, PpoOptions())


@pytest.mark.parametrize(("method", "options"), [("ppo", PPO), ("zero", ZERO)])
def test_a_stopped_run_goes_on_as_if_nothing_had_happened(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    plan = starting.Plan(method, labels=str(_labels(tmp_path)), graded=20, trials=4, options=tuple(options.items()))
    settings = replace(SETTINGS, steps=30 if method == "zero" else 4, evaluate_every=100)
    whole = starting.start(plan, CONFIG, settings, tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == (20 if method == "zero" else 2):
            raise Stop

    with pytest.raises(Stop):
        starting.start(plan, CONFIG, settings, tmp_path / "parts", shown=stop)
    parts = starting.resume(tmp_path / "parts")
    one, two = (training.load_checkpoint(training.latest(run.folder / "checkpoints"))[0] for run in (whole, parts))
    assert set(one) == set(two)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(name.startswith("optimizer.") for name in one)


def test_the_one_that_errs_least_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter((0.3, 0.1, 0.2))
    doubts = iter((0.1, 0.2, 0.3))  # surer with every update
    plan = starting.Plan("ppo", labels=str(_labels(tmp_path)), graded=20, trials=2, options=tuple(PPO.items()))
    real = starting.grade

    def grade(net: models.BoardNet, *given: Any, **options: Any) -> dict[str, Any]:
        found = real(net, *given, **options)
        return {**found, "error": next(errors, 0.1), "doubt": next(doubts, 0.2)}

    monkeypatch.setattr(starting, "grade", grade)
    done = starting.start(plan, CONFIG, replace(SETTINGS, steps=3, evaluate_every=1), tmp_path / "run")
    assert done.results["best_step"] == 2


def _labels(folder: Path) -> Path:
    label(folder / "labels", LabelOptions(fewest=30, seed=3, early=0.0, middle=0.0), positions=2000)
    return folder / "labels"


def test_the_buffer_forgets_the_oldest() -> None:
    buffer = Buffer(4, 7)
    for number in range(6):
        buffer.add(np.array([number]), np.array([number]), np.zeros((1, 7)), np.array([1.0]))
    assert len(buffer) == 4
    assert sorted(buffer.mask.tolist()) == [2, 3, 4, 5]


def test_zero_learns_how_games_ended(network: models.BoardNet) -> None:
    method = Zero(network, SETTINGS, ALONE, ZeroOptions(**ZERO))
    for step in range(40):
        row = method.update(step, 1e-3, 0.0)
    assert row["mini_batches"] == 2
    buffer = method.buffer
    assert len(buffer) > 20
    for at in range(len(buffer)):
        board = Board.from_bits(int(buffer.position[at]), int(buffer.mask[at]))
        assert not board.over
        assert buffer.policy[at].sum() == pytest.approx(1, abs=1e-5)
        assert all(chance == 0 for column, chance in enumerate(buffer.policy[at]) if column not in board.legal)
        if any(board.play(column).winner for column in board.legal):  # then nothing else is to be learnt
            assert all(board.play(column).winner for column in np.flatnonzero(buffer.policy[at]).tolist())
    assert set(np.unique(buffer.result)) <= {-1.0, 0.0, 1.0}


def test_trials_count_wins_from_both_sides() -> None:
    torch.manual_seed(1)
    found = won_against(models.BoardNet(CONFIG).eval(), ("random", "greedy"), games=20)
    assert set(found) == {"won_against_random", "won_against_greedy"}
    assert all(0 <= share <= 1 for share in found.values())
    assert found["won_against_greedy"] < 0.5


@pytest.mark.parametrize(
    ("kind", "changes", "complaint"),
    [
        (PpoOptions, {"games": 0}, "games must be at least 1"),
        (PpoOptions, {"trace": 2}, "trace must be 0 to 1"),
        (PpoOptions, {"clip": 0}, "clip must be more than 0"),
        (ZeroOptions, {"simulations": 0}, "simulations must be at least 1"),
        (ZeroOptions, {"fewest": 10, "buffer": 5}, "never has the 10"),
    ],
)
def test_options_that_cannot_be(kind: Any, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        kind(**changes)
