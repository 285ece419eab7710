"""The opening table: exact values, unchanged policy, resuming, the command."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from regard.cli import app
from regard.connectx import Board, NetworkPlayer, Solver, load_network, memorize
from regard.connectx.data.label_storage import canonical_keys
from regard.connectx.game.board_batch import planes_of
from regard.connectx.kaggle.numpy_network import NumpyNetwork, pack_network
from regard.connectx.players import network_player
from regard.connectx.solver.build_book import positions_with
from regard.connectx.training.fit_opening_table import solved_openings
from regard.models import BoardNet, Evaluator, load, save

SIZE = (4, 5, 3)


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(*SIZE, table_bits=16)


@pytest.fixture
def net() -> BoardNet:
    torch.manual_seed(0)
    return BoardNet("tiny", channels=8, heads=2, layers=2, attn_every=1, score="columns").eval()


def test_values_become_exact_and_the_policy_does_not_change(net: BoardNet, solver: Solver) -> None:
    labels = solved_openings(solver, 6)
    result = memorize(net, solver, stones=6, bits=20, passes=100)  # five columns: one table entry per position
    assert result.before[0] is not None
    assert result.after[0] is not None
    assert result.before[0] > 0.5  # the network is untrained
    assert result.after[0] < 0.02
    assert result.learnt + result.held_out == len(labels)
    learnt = labels[~labels.held_out()]
    planes = planes_of(learnt.position, learnt.mask, learnt.shape)
    evaluator, plain = Evaluator(result.net), Evaluator(net)
    now, before = evaluator(planes), plain(planes)
    assert evaluator.in_table(planes).all()
    assert not plain.in_table(planes).any()
    assert (np.abs(now.value - learnt.scores[:, 0]) < 0.5).mean() > 0.99
    assert np.allclose(now.policy, before.policy, atol=1e-6)
    assert net.config.opening_table == ()  # the original network is not changed


def test_the_table_has_no_effect_on_positions_it_was_not_taught(net: BoardNet, solver: Solver, tmp_path: Path) -> None:
    labels = solved_openings(solver, 5)
    excluded = labels[np.arange(20)]
    result = memorize(net, solver, stones=5, bits=12, passes=3, without=(excluded.position, excluded.mask))
    save(result.net, tmp_path)
    every = [positions_with(stones, *SIZE) for stones in range(8)]
    position, mask = (np.concatenate(parts) for parts in zip(*every, strict=True))
    keys = canonical_keys(position, mask, labels.shape)
    learnt = labels.without(excluded.position, excluded.mask)
    learnt = learnt[~learnt.held_out()]
    taught = np.isin(keys, canonical_keys(learnt.position, learnt.mask, learnt.shape))
    planes = planes_of(position, mask, labels.shape)
    packed = pack_network(asdict(result.net.for_inference().config), {
        name: value.numpy() for name, value in result.net.for_inference().state_dict().items()
    })  # fmt: skip
    for board in (planes, planes[..., ::-1]):
        with_table, exported = Evaluator(load(tmp_path)), NumpyNetwork(packed)
        assert (with_table.in_table(board) == taught).all()
        assert (exported.covers(board) == taught).all()
        legal = board[:, :, 0].sum(1) == 0
        difference = np.abs(with_table(board, legal).value - Evaluator(net)(board, legal).value)
        assert difference[~taught].max() < 1e-6
        assert (difference[taught] > 1e-6).mean() > 0.9
        assert np.abs(exported.one_sided(board, legal).value - with_table(board, legal).value).max() < 0.02
    assert result.after[1] == result.before[1]  # held-out positions


def test_excluded_positions_are_not_learnt(net: BoardNet, solver: Solver) -> None:
    labels = solved_openings(solver, 4)
    all_but = memorize(net, solver, stones=4, bits=12, passes=1, without=(labels.position[:50], labels.mask[:50]))
    assert all_but.learnt + all_but.held_out == len(labels) - 50


def test_resuming_and_processes_do_not_change_the_table(
    net: BoardNet, solver: Solver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.connectx.data.network_values.BATCH", 64)
    at_once = memorize(net, solver, stones=5, bits=12, passes=3)
    counts: list[int] = []

    def stop_soon(what: str, done: int, total: int) -> None:
        if what == "evaluating" and done:
            counts.append(done)
            if len(counts) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memorize(net, solver, stones=5, bits=12, passes=3, folder=tmp_path, report=stop_soon)
    (file,) = tmp_path.iterdir()
    assert (~np.isnan(np.load(file)[:, 0])).sum() == sum(counts)
    done_counts: list[int] = []
    again = memorize(
        net, solver, stones=5, bits=12, passes=3, folder=tmp_path,
        report=lambda what, done, total: done_counts.append(done) if what == "evaluating" else None,
    )  # fmt: skip
    assert done_counts[0] == sum(counts)
    other = memorize(net, solver, stones=5, bits=12, passes=3, processes=2)
    for one in (again, other):
        assert one.net.opening_table is not None
        assert at_once.net.opening_table is not None
        assert torch.equal(one.net.opening_table.table, at_once.net.opening_table.table)


def test_the_search_trusts_values_of_the_opening_table(solver: Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluator is right with few stones and wrong with more; only a search that trusts the table plays well."""
    monkeypatch.setattr(network_player, "LOOK_AHEAD", 0)  # it solves so small a board
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

    with_table = NetworkPlayer(Judge(), 60, in_table=lambda planes: planes.sum((1, 2, 3)) <= 2)
    best = max(score for score in scores if score is not None)
    chosen = scores[with_table.choose(board)]
    assert chosen is not None
    assert np.sign(chosen) == np.sign(best)
    without_table = scores[NetworkPlayer(Judge(), 60).choose(board)]
    assert without_table is not None
    assert np.sign(without_table) < np.sign(best)


def test_the_command(net: BoardNet, tmp_path: Path) -> None:
    save(net, tmp_path / "net")
    run = CliRunner()
    arguments = ["connectx", "memorize", str(tmp_path / "net"), "--size", "4x5x3", "--stones", "4", "--bits", "10"]
    done = run.invoke(app, [*arguments, "--out", str(tmp_path / "out"), "--processes", "1"])
    assert done.exit_code == 0, done.output
    assert "positions learnt" in done.output
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["model.json", "model.safetensors"]
    network = load_network(tmp_path / "out")
    assert network.config.opening_table == (4, 5, 4)
    assert isinstance(load(tmp_path / "out"), BoardNet)
    for wrong, message in (
        ([*arguments, "--out", str(tmp_path / "out")], "contains a model already"),
        ([*arguments, "--stones", "30", "--out", str(tmp_path / "x")], "stones must be between 0 and 12, got 30"),
        (["connectx", "memorize", "nowhere", "--out", str(tmp_path / "x")], "contains no network"),
        ([*arguments, "--bits", "99", "--out", str(tmp_path / "x")], r"2^99"),
        ([*arguments, "--passes", "0", "--out", str(tmp_path / "x")], "passes"),
    ):
        refused = run.invoke(app, wrong)
        assert refused.exit_code == 2
        assert message in refused.stderr
        assert not (tmp_path / "x").exists()
