"""PPO and AlphaZero: advantages, legal games, metrics, exact resuming."""

import copy
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard import models
from regard.cli.connectx.train import describe_row
from regard.connectx import Board, LabelOptions, label
from regard.connectx.training import run as board_run
from regard.connectx.training.alphazero import AlphaZero, AlphaZeroOptions, ReplayBuffer
from regard.connectx.training.evaluation import win_rates
from regard.connectx.training.ppo import Ppo, PpoOptions, Rollout, advantages
from regard.parallel import LocalEngine
from regard.training import Settings
from regard.training.checkpoint import latest_checkpoint, load_checkpoint
from regard.training.distributed import Ranks
from regard.training.loop import Loop

ALONE = Ranks(0, 1, torch.device("cpu"))
CONFIG = models.BoardConfig(channels=16, heads=2, attn_every=2, layers=2, lines=4, norm="group")
SETTINGS = Settings(steps=4, batch=64, warmup=0, evaluate_every=2, checkpoint_every=1, threads=1)
PPO = {"games": 16, "moves": 8, "pool_every": 2, "pool_share": 0.5}
ZERO = {"games": 8, "simulations": 4, "fewest": 20, "buffer": 200}


def test_advantages_of_a_won_game() -> None:
    """Two moves of one game, the second wins; the value of the second position counts negatively for the first."""
    column = lambda *values: np.array(values, float)[:, None]  # noqa: E731
    zeros = column(0, 0)
    rollout = Rollout(zeros, zeros, zeros, zeros, column(0.2, 0.5), column(0, 1), column(0, 1), column(1, 1), zeros)
    found = advantages(rollout, np.array([0.7]), discount=1.0, trace=0.9)
    second = 1 - 0.5
    first = (0 - 0.5 - 0.2) - 0.9 * second
    assert found[:, 0].tolist() == pytest.approx([first, second])


def test_without_trace_only_the_next_value_counts() -> None:
    random = np.random.default_rng(0)
    shape = (5, 3)
    over = random.random(shape) < 0.4
    rollout = Rollout(*[np.zeros(shape)] * 4, random.normal(size=shape), over * 1.0, over, over, over)
    last = random.normal(size=3)
    found = advantages(rollout, last, 1.0, 0.0)
    after = np.vstack([rollout.value[1:], last])
    assert np.allclose(found, rollout.reward - after * ~over - rollout.value)


@pytest.fixture
def network() -> models.BoardNet:
    torch.manual_seed(0)
    return models.BoardNet(CONFIG)


def test_ppo_plays_legal_games_and_returns_all_metrics(network: models.BoardNet) -> None:
    ppo = Ppo(network, SETTINGS, ALONE, PpoOptions(**PPO))
    rows = [ppo.update(step, 1e-3, 0.0) for step in range(4)]
    wanted = {"loss", "policy_loss", "value_loss", "entropy", "kl", "clip_share", "explained_variance"}
    assert wanted | {"games_per_second"} <= set(rows[0])
    assert all(np.isfinite(list(row.values())).all() for row in rows)
    assert rows[0]["positions"] == 16 * 8
    assert 1.5 < rows[0]["entropy"] <= np.log(7) + 1e-6
    assert len(ppo.pool) == 2
    assert (ppo.opponent >= 0).any()
    for game in range(16):
        board = ppo.boards[game]
        assert not board.over
        Board.from_bits(board.position, board.mask)  # raises an error for impossible positions


def test_the_first_pass_does_not_change_the_policy(network: models.BoardNet) -> None:
    ppo = Ppo(network, SETTINGS, ALONE, PpoOptions(**{**PPO, "epochs": 1, "pool_share": 0.0}))
    row = ppo.update(0, 0.0, 0.0)
    assert abs(row["kl"]) < 1e-6
    assert row["clip_share"] == 0


def test_ppo_refuses_batch_norms(network: models.BoardNet) -> None:
    with pytest.raises(ValueError, match="batch norms differ"):
        Ppo(models.BoardNet(CONFIG, norm="batch"), SETTINGS, ALONE, PpoOptions())


@pytest.mark.parametrize(("method", "options"), [("ppo", PPO), ("zero", ZERO)])
def test_a_resumed_run_equals_an_uninterrupted_one(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    run_config = board_run.BoardRunConfig(
        method,
        labels=str(_labels(tmp_path)),
        evaluation_positions=20,
        games_per_opponent=4,
        options=tuple(options.items()),
    )
    settings = replace(SETTINGS, steps=30 if method == "zero" else 4, evaluate_every=100)
    whole = board_run.start_run(run_config, CONFIG, settings, tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == (20 if method == "zero" else 2):
            raise Stop

    with pytest.raises(Stop):
        board_run.start_run(run_config, CONFIG, settings, tmp_path / "parts", report=stop)
    parts = board_run.resume_run(tmp_path / "parts")
    one, two = (load_checkpoint(latest_checkpoint(run.folder / "checkpoints"))[0] for run in (whole, parts))
    assert set(one) == set(two)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(name.startswith("optimizer.") for name in one)


def test_the_network_with_the_lowest_error_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter((0.3, 0.1, 0.2))
    doubts = iter((0.1, 0.2, 0.3))  # falls with every update
    run_config = board_run.BoardRunConfig(
        "ppo", labels=str(_labels(tmp_path)), evaluation_positions=20, games_per_opponent=2, options=tuple(PPO.items())
    )
    real = board_run.evaluate_network

    def evaluate_network(net: models.BoardNet, *args: Any, **options: Any) -> dict[str, Any]:
        metrics = real(net, *args, **options)
        return {**metrics, "error": next(errors, 0.1), "doubt": next(doubts, 0.2)}

    monkeypatch.setattr(board_run, "evaluate_network", evaluate_network)
    done = board_run.start_run(run_config, CONFIG, replace(SETTINGS, steps=3, evaluate_every=1), tmp_path / "run")
    assert done.results["best_step"] == 2


def _labels(folder: Path) -> Path:
    label(folder / "labels", LabelOptions(fewest=30, seed=3, early=0.0, middle=0.0), positions=2000)
    return folder / "labels"


def test_the_buffer_overwrites_the_oldest_positions() -> None:
    buffer = ReplayBuffer(4, 7)
    for number in range(6):
        buffer.add(np.array([number]), np.array([number]), np.zeros((1, 7)), np.array([1.0]))
    assert len(buffer) == 4
    assert sorted(buffer.mask.tolist()) == [2, 3, 4, 5]


def test_alphazero_stores_results_and_improved_policies(network: models.BoardNet) -> None:
    alphazero = AlphaZero(network, SETTINGS, ALONE, AlphaZeroOptions(**ZERO))
    for step in range(40):
        row = alphazero.update(step, 1e-3, 0.0)
    assert row["mini_batches"] == 2
    buffer = alphazero.buffer
    assert len(buffer) > 20
    for at in range(len(buffer)):
        board = Board.from_bits(int(buffer.position[at]), int(buffer.mask[at]))
        assert not board.over
        assert buffer.policy[at].sum() == pytest.approx(1, abs=1e-5)
        assert all(chance == 0 for column, chance in enumerate(buffer.policy[at]) if column not in board.legal)
        if any(board.play(column).winner for column in board.legal):  # the policy has winning moves only
            assert all(board.play(column).winner for column in np.flatnonzero(buffer.policy[at]).tolist())
    assert set(np.unique(buffer.result)) <= {-1.0, 0.0, 1.0}


def test_filling_the_buffer_is_not_learning(network: models.BoardNet, tmp_path: Path) -> None:
    """Updates that learn nothing do not count as steps, and positions are those learnt from."""
    settings = replace(SETTINGS, steps=2, minutes=None, evaluate_every=5, checkpoint_every=5)
    alphazero = AlphaZero(network, settings, ALONE, AlphaZeroOptions(**ZERO))
    before = copy.deepcopy(network.state_dict())
    first = alphazero.update(0, 1e-3, 0.0)
    assert first["positions"] == 0
    assert "loss" not in first
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    rows: list[dict[str, Any]] = []
    loop = Loop(alphazero, lambda net: {"loss": 1.0}, settings, tmp_path, ALONE, rows.append, report_every=1)
    state = loop.run()
    assert (state.step, state.count) == (2, 2 * 2 * settings.batch)
    learnt = [row for row in rows if row["split"] == "train"]
    assert [row["step"] for row in learnt] == [1, 2]
    assert all(row["loss"] > 0 for row in learnt)
    assert learnt[0]["learning_rate"] == settings.learning_rate_at(0)
    lines = [describe_row(row) for row in rows if row["split"] == "preparation"]
    assert lines
    assert all("positions before learning begins" in str(line) for line in lines)


def test_every_number_of_processes_trains_the_same_network(network: models.BoardNet) -> None:
    weights = []
    for processes in (1, 2):
        trained = copy.deepcopy(network)
        with LocalEngine(processes) as engine:
            alphazero = AlphaZero(trained, SETTINGS, ALONE, AlphaZeroOptions(**{**ZERO, "fewest": 8}), engine)
            with closing(alphazero):
                for step in range(24):
                    alphazero.update(step, 1e-3, 0.0)
        weights.append(trained.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert any(not torch.equal(value, weights[0][name]) for name, value in network.state_dict().items())  # it learnt


def test_win_rates() -> None:
    torch.manual_seed(1)
    found = win_rates(models.BoardNet(CONFIG).eval(), ("random", "greedy"), games=20)
    assert set(found) == {"won_against_random", "won_against_greedy"}
    assert all(0 <= share <= 1 for share in found.values())
    assert found["won_against_greedy"] < 0.5


@pytest.mark.parametrize(
    ("kind", "changes", "complaint"),
    [
        (PpoOptions, {"games": 0}, "games must be at least 1"),
        (PpoOptions, {"trace": 2}, "trace must be between 0 and 1"),
        (PpoOptions, {"clip": 0}, "clip must be greater than 0"),
        (AlphaZeroOptions, {"simulations": 0}, "simulations must be at least 1"),
        (AlphaZeroOptions, {"fewest": 10, "buffer": 5}, "fewest must be at most buffer, got 10 and 5"),
    ],
)
def test_wrong_options(kind: Any, changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        kind(**changes)
