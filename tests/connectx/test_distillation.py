"""Distillation: targets, sampling of batches, losses, determinism, exact resuming."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard import models, training
from regard.connectx import Board, LabelOptions, Solver, label, read_labels
from regard.connectx.arena.move_quality import SET_NAMES
from regard.connectx.data.label_storage import FULL, Labels
from regard.connectx.training import run as board_run
from regard.connectx.training.distillation import (
    EARLY,
    FAR,
    LATE,
    NEAR,
    SETTLED,
    TARGET_WEIGHT,
    DistillationLoss,
    LabelBatches,
    label_tensors,
    sampling_weights,
)
from regard.connectx.training.evaluation import balanced_sample, evaluate_network
from regard.files import write_json
from regard.training.checkpoint import latest_checkpoint, load_checkpoint

SIZE = (4, 5, 3)
CONFIG = models.BoardConfig(channels=16, heads=2, attn_every=2, layers=2, score="columns", lines=3)
SETTINGS = training.Settings(
    steps=12, batch=32, learning_rate=3e-3, warmup=2, evaluate_every=6, checkpoint_every=4, threads=1
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labels")
    label(path, LabelOptions(SIZE, fewest=3, seed=2), positions=3000)
    return path


def test_targets_prefer_moves_that_keep_the_value_and_among_them_the_best() -> None:
    board = Board.from_moves("4455")
    scores = Solver().scores(Board.from_moves("445511"))
    assert scores is not None
    row = np.array([[18, 2, 0, 0, -3, FULL, -20]], np.int8)
    labels = Labels(board.shape, np.array([board.position]), np.array([board.mask]), row, np.zeros(1, np.uint8))
    _, legal, policy, value, score = label_tensors(labels)
    chances = policy[0].tolist()
    assert legal[0].tolist() == [True] * 5 + [False, True]
    assert chances[0] > chances[1] > chances[2] == chances[3] > chances[4] > chances[6] > chances[5] == 0
    assert sum(chances[:2]) > 0.99
    assert value.tolist() == [[1.0]]
    assert score[0].tolist() == pytest.approx([1.8, 0.2, 0, 0, -0.3, 0, -2.0])
    mirrored = label_tensors(labels, np.array([True]))
    assert mirrored[2][0].tolist() == chances[::-1]


def test_the_batch_of_a_step_depends_on_its_number_only(folder: Path) -> None:
    labels = read_labels(folder)
    batches, again = LabelBatches(labels, 256, seed=1), LabelBatches(labels, 256, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(batches(7), again(7), strict=True))
    assert not torch.equal(batches(7)[0], batches(8)[0])
    _, mirrored = batches.draw(3)
    assert 80 < mirrored.sum() < 176
    halves = [batches(7, slice(rank, None, 2)) for rank in range(2)]
    assert torch.equal(torch.cat([halves[0][3], halves[1][3]]).sum(), batches(7)[3].sum())


def test_settled_positions_are_drawn_less_and_weighted_up(folder: Path) -> None:
    labels = read_labels(folder)
    batches = LabelBatches(labels, 4096, seed=1)
    places, _ = batches.draw(0)
    alike = [len({(s > 0) - (s < 0) for s in row if s != FULL}) == 1 for row in labels.scores.tolist()]
    assert sorted(batches.settled.tolist()) == sorted(alike)
    for ply in range(5, 12):
        here = labels.stones == ply
        drawn = batches.settled[places][batches.labels.stones[places] == ply]
        open_, settled = (~np.array(alike)[here]).sum(), np.array(alike)[here].sum()
        assert abs(drawn.mean() - settled / 4 / (open_ + settled / 4)) < 0.1
    weight = batches(0)[5][:, 0].numpy()
    assert set(weight[batches.settled[places]].tolist()) == {4.0}
    assert set(weight[~batches.settled[places]].tolist()) == {1.0}
    # Weighted so, the mean value of what is drawn is that of all.
    same = batches.labels.stones[places] == 8
    values = batches(0)[3][:, 0].numpy()
    exact = np.sign(labels.scores.astype(int).max(1))[labels.stones == 8].mean()
    assert np.average(values[same], weights=weight[same]) == pytest.approx(exact, abs=0.25)


def test_sampling_weights_grow_with_the_distance_to_the_end(folder: Path) -> None:
    labels = read_labels(folder)
    solver = Solver(*SIZE, table_bits=16)
    weights = sampling_weights(labels)
    for at in range(0, len(labels), len(labels) // 40):
        board = Board.from_bits(int(labels.position[at]), int(labels.mask[at]), *SIZE)
        moves = 0
        while not board.over:  # the longest line of best moves
            scores = solver.scores(board)
            board = board.play(max(board.legal, key=scores.__getitem__))
            moves += 1
        assert weights[at] == pytest.approx(min(1.0, max(NEAR, moves / FAR)))
    batches = LabelBatches(labels, 8192, seed=1)
    chance, wanted = chances(batches), sampling_weights(batches.labels) * np.where(batches.settled, SETTLED, 1.0)
    for ply in np.unique(batches.labels.stones):
        here = batches.labels.stones == ply
        np.testing.assert_allclose(chance[here] / chance[here].sum(), wanted[here] / wanted[here].sum(), atol=1e-9)
    drawn = np.bincount(batches.draw(0)[0], minlength=len(labels))
    np.testing.assert_allclose(np.add.reduceat(drawn, range(0, len(labels), 300)) / 8192,
                               np.add.reduceat(chance, range(0, len(labels), 300)), atol=0.02)  # fmt: skip


def test_share_of_each_number_of_stones(folder: Path) -> None:
    labels = read_labels(folder)
    batches = LabelBatches(labels, 256, seed=1)
    chance, stones = chances(batches), batches.labels.stones
    plies, count = np.unique(stones, return_counts=True)
    share = np.array([chance[stones == ply].sum() for ply in plies])
    assert count.max() > 2 * count.min()
    by_root = share / np.sqrt(count)
    third = np.minimum(3 * plies // 20, 2)
    middle = by_root[third == 1]
    np.testing.assert_allclose(middle, middle[0])
    np.testing.assert_allclose(by_root[third == 0], EARLY * middle[0])
    np.testing.assert_allclose(by_root[third == 2], LATE * middle[0])


def chances(batches: LabelBatches) -> np.ndarray:
    """Return the probability of drawing each label."""
    return np.diff(batches.cumulative, prepend=0.0)


def test_weights_of_positions_in_the_loss() -> None:
    net = models.BoardNet(CONFIG).eval()
    torch.manual_seed(0)
    planes, legal = (torch.rand(4, 2, 4, 5) < 0.3).float(), torch.ones(4, 5, dtype=torch.bool)
    policy, value, score = torch.rand(4, 5).softmax(-1), torch.tensor([[1.0], [0], [-1], [1]]), torch.rand(4, 5)
    loss_of = DistillationLoss(net)
    alone = torch.stack([loss_of(*(x[i : i + 1] for x in (planes, legal, policy, value, score))) for i in range(4)])
    assert torch.allclose(loss_of(planes, legal, policy, value, score), alone.mean(0), atol=1e-6)
    weighted = loss_of(planes, legal, policy, value, score, torch.tensor([[1.0], [4], [1], [4]]))
    shares = torch.tensor([0.1, 0.4, 0.1, 0.4])
    assert torch.allclose(weighted[0], alone[:, 0].mean(), atol=1e-6)
    assert torch.allclose(weighted[1:], (shares[:, None] * alone[:, 1:]).sum(0), atol=1e-6)


def test_mistakes_cost_more_than_slow_wins(folder: Path) -> None:
    labels = read_labels(folder)
    *batch, keeps = LabelBatches(labels, 64, seed=1)(0)
    legal, score = batch[1], batch[4]
    best = torch.where(legal, score.sign(), -2).amax(1, keepdim=True)
    assert torch.equal(keeps, legal & (score.sign() == best))
    assert keeps.any(1).all()
    assert (legal & ~keeps).any()

    class FixedPolicy(nn.Module):
        """A network with a fixed policy."""

        def __init__(self, logits: torch.Tensor) -> None:
            super().__init__()
            self.logits = logits

        def forward(self, planes: torch.Tensor) -> models.BoardOutput:
            return models.BoardOutput(self.logits, torch.zeros(len(planes), 1), None)

    def loss(logits: torch.Tensor, *also: torch.Tensor) -> float:
        return float(DistillationLoss(FixedPolicy(logits))(*batch, *also)[0])  # type: ignore[arg-type]

    errs = (keeps & (legal & ~keeps).any(1, keepdim=True)).float()  # an equal part to every move that keeps the value
    sure, unsure = 12 * errs, torch.zeros_like(errs)
    assert loss(unsure, keeps) - loss(sure, keeps) > 2 * TARGET_WEIGHT * (loss(unsure) - loss(sure)) > 0
    # Nothing but keeping the value: the more certain, the smaller.
    plain = [loss(size * errs, keeps) - TARGET_WEIGHT * loss(size * errs) for size in (0, 1, 4, 12)]
    assert sorted(plain, reverse=True) == plain
    assert plain[-1] == pytest.approx(0, abs=1e-3)


def weights(run: Path) -> dict[str, Any]:
    return models.load(run).state_dict()


def test_the_seed_determines_the_weights(folder: Path, tmp_path: Path) -> None:
    run_config = board_run.BoardRunConfig("distill", labels=str(folder), evaluation_positions=50)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        board_run.start_run(run_config, CONFIG, replace(SETTINGS, seed=seed), tmp_path / name)
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_resumed_run_equals_an_uninterrupted_one(optimizer: str, folder: Path, tmp_path: Path) -> None:
    run_config = board_run.BoardRunConfig("distill", labels=str(folder), evaluation_positions=50)
    settings = replace(SETTINGS, optimizer=optimizer)
    whole = board_run.start_run(run_config, CONFIG, settings, tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(row: dict[str, Any]) -> None:
        if row["split"] == "grade" and row["step"] == 6:
            raise Stop

    with pytest.raises(Stop):
        board_run.start_run(run_config, CONFIG, settings, tmp_path / "parts", report=stop)
    label(folder, LabelOptions(SIZE, fewest=3, seed=9), positions=50)  # labels made meanwhile are ignored
    parts = board_run.resume_run(tmp_path / "parts")
    one, two = weights(whole.folder), weights(parts.folder)
    assert all(torch.equal(one[name], two[name]) for name in one)
    for name in ("alone", "mirrored", "best_step", "positions"):
        assert whole.results[name] == parts.results[name]
    with pytest.raises(ValueError, match="is finished"):
        board_run.resume_run(tmp_path / "parts")


def test_with_new_labels_the_best_network_is_evaluated_again(folder: Path, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(row: dict[str, Any]) -> None:
        if row["split"] == "train" and row["step"] == 40:
            raise Stop

    run_config = board_run.BoardRunConfig("distill", labels=str(folder), evaluation_positions=200)
    run, settings = tmp_path / "run", replace(SETTINGS, steps=120, evaluate_every=20)
    with pytest.raises(Stop):
        board_run.start_run(run_config, CONFIG, settings, run, report=stop)
    newest = latest_checkpoint(run / "checkpoints")
    assert newest is not None
    kept = json.loads((newest / "state.json").read_text())
    assert kept["best_step"] == 20
    # As if the best network had been evaluated on easier positions, on which it seemed perfect.
    write_json(newest / "state.json", {**kept, "best_metric": 0.0})
    label(folder, LabelOptions(SIZE, fewest=3, seed=10), positions=50)
    done = board_run.resume_run(run, new_labels=True)
    assert done.results["best_step"] > 20
    rows = training.read_metrics(run / "metrics.jsonl")
    grades = {row["step"]: row["error"] for row in rows if row["split"] == "grade"}
    assert done.results["alone"]["error"] == pytest.approx(grades[done.results["best_step"]])


def test_doubt_of_a_uniform_policy(folder: Path) -> None:
    held = balanced_sample(read_labels(folder).split()[1], 100)
    net = models.BoardNet(CONFIG).eval()
    torch.nn.init.zeros_(net.policy.answer.weight)
    torch.nn.init.zeros_(net.policy.answer.bias)  # a uniform policy
    third = np.minimum(3 * held.stones // 20, 2)
    doubts = []
    for scores in held.scores.tolist():
        legal = [score for score in scores if score != FULL]
        kept = [score for score in legal if np.sign(score) == np.sign(max(legal))]
        doubts.append(np.log(len(legal) / len(kept)))
    wanted = np.mean([np.mean(np.array(doubts)[third == number]) for number in np.unique(third)])
    assert evaluate_network(net, held)["doubt"] == pytest.approx(wanted, abs=1e-5)


def test_the_error_falls(folder: Path, tmp_path: Path) -> None:
    held = balanced_sample(read_labels(folder).split()[1], 200)
    torch.manual_seed(0)
    before = evaluate_network(models.BoardNet(CONFIG).eval(), held)
    run_config = board_run.BoardRunConfig("distill", labels=str(folder), evaluation_positions=200)
    done = board_run.start_run(run_config, CONFIG, replace(SETTINGS, steps=150, evaluate_every=50), tmp_path / "run")
    assert done.results["alone"]["error"] < 0.6 * before["error"]
    rows = training.read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert {row["split"] for row in rows} == {"train", "grade"}
    assert rows[0]["loss"] > rows[-2]["loss"]
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["results"]["positions"] == 150 * 32
    # Another run starts from the weights of this one.
    further = board_run.BoardRunConfig(
        "distill", labels=str(folder), evaluation_positions=200, start=str(tmp_path / "run")
    )
    again = board_run.start_run(further, CONFIG, replace(SETTINGS, steps=1), tmp_path / "further")
    assert again.results["alone"]["error"] < 0.8 * before["error"]
    # More layers are possible only if the network does not end with attention.
    with pytest.raises(ValueError, match="ends with attention"):
        board_run.extended_config(tmp_path / "run", 4)
    with pytest.raises(ValueError, match="differs from that of"):
        board_run.start_run(further, replace(CONFIG, channels=32), SETTINGS, tmp_path / "wider")


def test_a_run_starts_from_a_network_with_more_layers(folder: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = models.BoardNet(replace(CONFIG, layers=3))
    models.save(net, tmp_path / "start")
    run_config = board_run.BoardRunConfig(
        "distill", labels=str(folder), evaluation_positions=50, start=str(tmp_path / "start")
    )
    config = board_run.extended_config(tmp_path / "start", 5)
    quiet = replace(SETTINGS, steps=2, learning_rate=1e-9)
    done = board_run.start_run(run_config, config, quiet, tmp_path / "deeper")
    found = models.load(done.folder)
    assert isinstance(found, models.BoardNet)
    assert (found.config.layers, found.config.attentions) == (5, 2)
    held = balanced_sample(read_labels(folder).split()[1], 50)
    assert done.results["alone"]["error"] == pytest.approx(evaluate_network(net.eval(), held)["error"], abs=0.05)


def test_the_opening_table_of_the_starting_network_is_dropped(folder: Path, tmp_path: Path) -> None:
    """The table corrects errors of the old weights and would hide them from the new ones."""
    torch.manual_seed(0)
    net = models.BoardNet(replace(CONFIG, opening_table=(4, 5, 6), opening_table_bits=8))
    models.save(net, tmp_path / "start")
    run_config = board_run.BoardRunConfig(
        "distill", labels=str(folder), evaluation_positions=50, start=str(tmp_path / "start")
    )
    config = board_run.extended_config(tmp_path / "start")
    assert config.opening_table == ()
    board_run.start_run(run_config, config, replace(SETTINGS, steps=2), tmp_path / "run")
    found = models.load(tmp_path / "run")
    assert isinstance(found, models.BoardNet)
    assert found.opening_table is None


def test_positions_of_the_standard_sets_are_excluded(tmp_path: Path) -> None:
    folder, sets = tmp_path / "labels", tmp_path / "sets"
    label(folder, LabelOptions(fewest=30, early=0, middle=0, seed=2), positions=300)
    labels = read_labels(folder)
    learnt = labels.split()[0]
    sets.mkdir()
    for number, name in enumerate(SET_NAMES):
        board = Board.from_bits(int(learnt.position[number]), int(learnt.mask[number]))
        (sets / f"{name}.txt").write_text(f"{board.mirror().moves} 0 0 0 0 0 0 0 0\n")
    run_config = board_run.BoardRunConfig(
        "distill", labels=str(folder), evaluation_positions=20, excluded_sets=str(sets)
    )
    board_run.start_run(run_config, CONFIG, replace(SETTINGS, steps=2), tmp_path / "run")
    rows = training.read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert {row["labels"] for row in rows if row["split"] == "grade"} == {len(learnt) - 6}


def test_the_head_schedule(folder: Path, tmp_path: Path) -> None:
    run_config = board_run.BoardRunConfig(
        "distill", labels=str(folder), evaluation_positions=50, head_schedule=((0.0, 2), (0.5, 4))
    )
    board_run.start_run(run_config, CONFIG, SETTINGS, tmp_path / "run")
    found = models.load(tmp_path / "run")
    assert found.config.heads in (2, 4)
    whole = load_checkpoint(latest_checkpoint(tmp_path / "run" / "checkpoints"))
    assert whole[1]["step"] == 12


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [({"method": "sarsa"}, "method must be distill, ppo or zero"), ({"labels": None}, "distillation needs labels")],
)
def test_wrong_configurations(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        board_run.BoardRunConfig(**{"method": "distill", "labels": "x", **changes})


def test_an_existing_folder_is_not_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(ValueError, match="exists already"):
        board_run.start_run(board_run.BoardRunConfig("distill", labels=str(folder)), CONFIG, SETTINGS, tmp_path)
