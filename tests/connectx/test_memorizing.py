"""A network learns openings by heart: their values become right, the rest stays, and a stop loses nothing."""

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from regard.cli import app
from regard.connectx import Board, NetworkPlayer, Solver, load_network, memorize
from regard.connectx.game.board_batch import planes_of
from regard.connectx.training.opening_table import openings
from regard.models import BoardNet, Evaluator, load, save

SIZE = (4, 5, 3)


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(*SIZE, table_bits=16)


@pytest.fixture
def net() -> BoardNet:
    torch.manual_seed(0)
    return BoardNet("tiny", channels=8, heads=2, layers=2, attn_every=1, score="columns").eval()


def test_values_are_known_afterwards_and_policies_as_they_were(net: BoardNet, solver: Solver) -> None:
    known = openings(solver, 6)
    found = memorize(net, solver, stones=6, bits=20, passes=100)  # five columns: one number for each position
    assert found.before[0] is not None
    assert found.after[0] is not None
    assert found.before[0] > 0.5  # it knew nothing
    assert found.after[0] < 0.02
    assert found.learnt + found.held_out == len(known)
    learnt = known[~known.held_out()]
    planes = planes_of(learnt.position, learnt.mask, learnt.shape)
    now, before = Evaluator(found.net)(planes), Evaluator(net)(planes)
    assert (np.abs(now.value - learnt.scores[:, 0]) < 0.5).mean() > 0.99
    assert np.allclose(now.policy, before.policy, atol=1e-6)
    assert net.config.opening_table == ()  # the network given is not changed


def test_what_is_left_out_is_not_learnt(net: BoardNet, solver: Solver) -> None:
    known = openings(solver, 4)
    all_but = memorize(net, solver, stones=4, bits=12, passes=1, without=(known.position[:50], known.mask[:50]))
    assert all_but.learnt + all_but.held_out == len(known) - 50


def test_a_stop_loses_nothing_and_processes_change_nothing(
    net: BoardNet, solver: Solver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.connectx.data.batch_values.AT_ONCE", 64)
    at_once = memorize(net, solver, stones=5, bits=12, passes=3)
    asked: list[int] = []

    def stop_soon(what: str, done: int, total: int) -> None:
        if what == "asking" and done:
            asked.append(done)
            if len(asked) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memorize(net, solver, stones=5, bits=12, passes=3, kept=tmp_path, report=stop_soon)
    (file,) = tmp_path.iterdir()
    assert (~np.isnan(np.load(file)[:, 0])).sum() == sum(asked)
    told: list[int] = []
    again = memorize(
        net, solver, stones=5, bits=12, passes=3, kept=tmp_path,
        report=lambda what, done, total: told.append(done) if what == "asking" else None,
    )  # fmt: skip
    assert told[0] == sum(asked)
    other = memorize(net, solver, stones=5, bits=12, passes=3, processes=2)
    for one in (again, other):
        assert one.net.opening_table is not None
        assert at_once.net.opening_table is not None
        assert torch.equal(one.net.opening_table.table, at_once.net.opening_table.table)


def test_what_is_known_by_heart_outweighs_what_is_thought(solver: Solver) -> None:
    """A judge that is right with few stones and wrong with more: only who trusts its memory plays well."""
    size = (4, 5, 3)
    board = Board.from_moves("1", *size)
    scores = solver.scores(board)

    class Judge:
        def __call__(self, planes: np.ndarray, legal: np.ndarray) -> object:
            from regard.models.board.evaluator import Evaluation

            values = []
            for own, other in planes:
                bits = [sum(int(side[3 - row, column]) << column * 5 + row for column in range(5) for row in range(4))
                        for side in (own, own + other)]  # fmt: skip
                worth = np.sign(solver.score(*bits))
                values.append(worth if planes[len(values)].sum() <= 2 else -worth)
            return Evaluation(legal / legal.sum(1, keepdims=True), np.array(values, np.float32))

    trusting = NetworkPlayer(Judge(), 60, opening_table=(4, 5, 2))
    best = max(score for score in scores if score is not None)
    chosen = scores[trusting.choose(board)]
    assert chosen is not None
    assert np.sign(chosen) == np.sign(best)
    wary = scores[NetworkPlayer(Judge(), 60).choose(board)]
    assert wary is not None
    assert np.sign(wary) < np.sign(best)


def test_the_command(net: BoardNet, tmp_path: Path) -> None:
    save(net, tmp_path / "net")
    run = CliRunner()
    given = ["connectx", "memorize", str(tmp_path / "net"), "--size", "4x5x3", "--stones", "4", "--bits", "10"]
    done = run.invoke(app, [*given, "--out", str(tmp_path / "out"), "--processes", "1"])
    assert done.exit_code == 0, done.output
    assert "positions learnt" in done.output
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["model.json", "model.safetensors"]
    made = load_network(tmp_path / "out")
    assert made.config.opening_table == (4, 5, 4)
    assert isinstance(load(tmp_path / "out"), BoardNet)
    for wrong, said in (
        ([*given, "--out", str(tmp_path / "out")], "holds a model already"),
        ([*given, "--stones", "30", "--out", str(tmp_path / "x")], "stones must be 0 to 12, got 30"),
        (["connectx", "memorize", "nowhere", "--out", str(tmp_path / "x")], "holds no network"),
        ([*given, "--bits", "99", "--out", str(tmp_path / "x")], r"2^99"),
        ([*given, "--passes", "0", "--out", str(tmp_path / "x")], "passes"),
    ):
        refused = run.invoke(app, wrong)
        assert refused.exit_code == 2
        assert said in refused.stderr
        assert not (tmp_path / "x").exists()
