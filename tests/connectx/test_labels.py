"""Labels on disk: exact scores, atomic shards, each position once, positions of every stage of the game."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.connectx import Board, LabelOptions, Solver, label, label_openings, read_labels
from regard.connectx.data.label_storage import (
    FULL,
    bits_from_keys,
    make_records,
    open_folder,
    position_keys,
    record_type,
    shards,
    write_shard,
)
from regard.connectx.data.random_positions import random_positions
from regard.connectx.game.bitboard import board_shape, has_line, mirror
from regard.connectx.solver.build_book import positions_with
from regard.files import read_array
from regard.models import BoardNet, save
from regard.numba_functions import uncompiled

SIZE = board_shape(6, 7, 4)
SMALL = (4, 5, 3)


@given(st.integers(0, 10**6), st.sampled_from([(6, 7, 4), (4, 5, 3), (7, 8, 4), (3, 3, 2)]))
def test_keys_determine_the_stones(seed: int, size: tuple[int, int, int]) -> None:
    kind = board_shape(*size)
    stones = np.random.default_rng(seed).integers(0, size[0] * size[1], 8)
    position, mask = random_positions(stones, kind, seed)
    back = bits_from_keys(position_keys(position, mask, kind), kind)
    assert (back[0] == position).all()
    assert (back[1] == mask).all()
    assert (mirror(mirror(mask, kind), kind) == mask).all()


def test_random_positions_are_unfinished_and_depend_on_the_seed_only() -> None:
    stones = np.repeat(np.arange(0, 41), 20)
    position, mask = random_positions(stones, SIZE, 3)
    assert (np.bitwise_count(mask) == stones).all()
    assert (np.bitwise_count(position) == stones // 2).all()
    line = uncompiled(has_line)
    for own, all_ in zip(position.tolist(), mask.tolist(), strict=True):
        assert not line(own, SIZE)
        assert not line(own ^ all_, SIZE)
        assert Board.from_bits(own, all_).legal
    again = random_positions(stones, SIZE, 3)
    assert (again[0] == position).all()
    assert (again[1] == mask).all()
    assert not (random_positions(stones, SIZE, 4)[1] == mask).all()


def test_positions_have_fewer_stones_if_no_unfinished_game_has_as_many() -> None:
    _, mask = random_positions(np.array([8]), board_shape(3, 3, 2), 0)
    assert 0 < np.bitwise_count(mask)[0] < 8


def test_a_position_and_its_mirror_image_are_one_record() -> None:
    board = Board.from_moves("4455112")
    other = board.mirror()
    scores = np.arange(7, dtype=np.int8)[None]
    one, two = (
        make_records(np.array([b.position]), np.array([b.mask]), s, 0, SIZE)
        for b, s in ((board, scores), (other, scores[:, ::-1]))
    )  # fmt: skip
    assert one == two


def test_labels_equal_the_scores_of_the_solver(tmp_path: Path) -> None:
    count = label(tmp_path, LabelOptions(SMALL, fewest=2, seed=1), positions=300)
    labels = read_labels(tmp_path)
    assert 0 < len(labels) <= count
    solver = Solver(*SMALL, table_bits=16)
    for at in range(0, len(labels), 7):
        exact = solver.move_scores(int(labels.position[at]), int(labels.mask[at]))
        assert labels.scores[at].tolist() == [FULL if score is None else score for score in exact]
    assert labels.stones.min() >= 2
    assert len(np.unique(labels.stones)) > 8
    keys = position_keys(labels.position, labels.mask, labels.shape)
    assert (np.diff(keys.astype(object)) > 0).all()


def test_new_labels_are_added_as_new_shards(tmp_path: Path) -> None:
    draw = LabelOptions(SMALL, fewest=2, seed=1)
    label(tmp_path, draw, positions=50)
    first = {path.name: path.read_bytes() for path in tmp_path.glob("*.npy")}
    before = read_labels(tmp_path)
    label(tmp_path, draw, positions=50)
    after = read_labels(tmp_path)
    assert len(after) > len(before)
    assert all((tmp_path / name).read_bytes() == content for name, content in first.items())
    assert len(read_labels(tmp_path, most=len(first))) == len(before)
    learnt, held = after.split()
    assert len(learnt) + len(held) == len(after)
    earlier = before.split()[1]
    assert set(earlier.mask.tolist()) <= set(held.mask.tolist())  # what is held out stays so


def test_excluded_positions_include_mirror_images(tmp_path: Path) -> None:
    label(tmp_path, LabelOptions(SMALL, fewest=2, seed=1), positions=60)
    labels = read_labels(tmp_path)
    some = labels[np.array([0, 7, 11])]
    turned = mirror(some.position, labels.shape), mirror(some.mask, labels.shape)
    for position, mask in ((some.position, some.mask), turned):
        left = labels.without(position, mask)
        assert len(left) == len(labels) - 3
        assert not set(zip(some.position, some.mask, strict=True)) & set(zip(left.position, left.mask, strict=True))


def test_several_processes_make_the_same_labels(tmp_path: Path) -> None:
    draw = LabelOptions(SMALL, fewest=4, seed=5)
    label(tmp_path / "one", draw, positions=100, processes=1)
    label(tmp_path / "two", draw, positions=100, processes=2)
    one, two = read_labels(tmp_path / "one"), read_labels(tmp_path / "two")
    assert (one.mask == two.mask).all()
    assert (one.scores == two.scores).all()


KILLED = """
import os, sys
from regard.connectx import LabelOptions, label
def report(count, calls=[]):
    calls.append(count)
    if len(calls) == 4:
        os.kill(os.getpid(), 9)
label(sys.argv[1], LabelOptions((4, 5, 3), fewest=4, seed=5), positions=800, processes=2, table_bits=16, report=report)
"""


def every_record(folder: Path) -> list[bytes]:
    return sorted(record.tobytes() for file in shards(folder) for record in read_array(file))


def test_kill_9_of_the_main_process_loses_no_label(tmp_path: Path) -> None:
    options = LabelOptions(SMALL, fewest=4, seed=5)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "parts")]
    assert subprocess.run(command, check=False, timeout=100).returncode == -9
    counts: list[int] = []
    label(tmp_path / "parts", options, positions=800, table_bits=16, report=counts.append)
    assert counts[0] > 100  # three tasks were finished, and are not computed again
    label(tmp_path / "whole", options, positions=800, table_bits=16)
    assert every_record(tmp_path / "parts") == every_record(tmp_path / "whole")
    assert not list((tmp_path / "parts").glob(".*"))


def test_an_interrupted_command_is_continued(tmp_path: Path) -> None:
    options = LabelOptions(SMALL, fewest=4, seed=5)

    def stop(count: int, calls: list[int] = []) -> None:  # noqa: B006
        calls.append(count)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        label(tmp_path / "parts", options, positions=500, table_bits=16, report=stop)
    assert len(read_labels(tmp_path / "parts"))
    label(tmp_path / "parts", options, positions=500, table_bits=16)
    label(tmp_path / "whole", options, positions=500, table_bits=16)
    assert every_record(tmp_path / "parts") == every_record(tmp_path / "whole")


@pytest.mark.parametrize(("early", "fewest", "most"), [(1, 3, 6), (0, 6, 12)])  # games begin within a third
def test_follow_labels_all_following_positions(early: int, fewest: int, most: int, tmp_path: Path) -> None:
    draw = LabelOptions(SMALL, fewest=fewest, early=early, middle=1 - early, follow=2, seed=1)
    label(tmp_path, draw, positions=600)
    labels = read_labels(tmp_path)
    solver = Solver(*SMALL, table_bits=16)
    held = set(zip(labels.position.tolist(), labels.mask.tolist(), strict=True))
    line = uncompiled(has_line)
    grown = 0
    for (own, all_), scores in zip(held, map(solver.move_scores, *zip(*held, strict=True)), strict=True):
        if all_.bit_count() > fewest or 10 - fewest // 2 in scores:  # wins at once
            continue
        for column, score in enumerate(scores):
            stone = (all_ + (1 << column * 5)) & (15 << column * 5)
            if score in (None, (fewest + 1) // 2 - 10):  # full, or loses at once
                continue
            after = own ^ all_, all_ | stone
            mirrored = tuple(int(mirror(np.array([bits]), labels.shape)[0]) for bits in after)
            assert after in held or mirrored in held
            grown += 1
    assert grown > 10
    assert labels.stones.max() <= most + 2
    for at in range(0, len(labels), 5):
        exact = solver.move_scores(int(labels.position[at]), int(labels.mask[at]))
        assert labels.scores[at].tolist() == [FULL if score is None else score for score in exact]
        assert not line(int(labels.position[at] ^ labels.mask[at]), labels.shape)


def test_games_can_begin_with_a_chosen_number_of_stones(tmp_path: Path) -> None:
    label(tmp_path, LabelOptions(SMALL, fewest=7, most=8, follow=1, seed=1), positions=400)
    stones = np.bincount(read_labels(tmp_path).stones, minlength=20)
    assert set(np.flatnonzero(stones)) == {7, 8, 9}


def test_every_opening_is_labelled_once(tmp_path: Path) -> None:
    label(tmp_path, LabelOptions(SMALL, fewest=2, early=1, middle=0, seed=1), positions=40)
    before = read_labels(tmp_path)
    solver = Solver(*SMALL, table_bits=16)
    heard: list[tuple[int, int]] = []
    new = label_openings(tmp_path, 4, solver, report=lambda done, total: heard.append((done, total)))
    labels = read_labels(tmp_path)
    assert [int((labels.stones == n).sum()) for n in range(5)] == [positions_with(n, *SMALL)[0].size for n in range(5)]
    assert len(labels) == len(before) + new  # none that was there already
    assert sum(done for done, _ in heard) == new == heard[-1][1]
    for at in range(0, len(labels), 11):
        exact = solver.move_scores(int(labels.position[at]), int(labels.mask[at]))
        assert labels.scores[at].tolist() == [FULL if score is None else score for score in exact]
    assert label_openings(tmp_path, 4, solver) == 0
    with pytest.raises(ValueError, match="stones must be 0 to 12, got 13"):
        label_openings(tmp_path, 13, solver)


def test_interrupted_openings_are_continued(tmp_path: Path) -> None:
    solver = Solver(*SMALL, table_bits=16)

    def stopped(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        label_openings(tmp_path, 4, solver, report=stopped)
    begun = len(read_labels(tmp_path))
    assert begun > 0
    assert label_openings(tmp_path, 4, solver) == sum(positions_with(n, *SMALL)[0].size for n in range(5)) - begun


def test_uncertain_positions_of_network_games_are_labelled(tmp_path: Path) -> None:
    torch.manual_seed(0)
    save(BoardNet("tiny", channels=16, layers=1, attn_every=None), tmp_path / "network")
    draw = LabelOptions(SMALL, fewest=4, seed=3, network=str(tmp_path / "network"), by_network=1.0)
    label(tmp_path / "labels", draw, positions=60)
    labels = read_labels(tmp_path / "labels")
    assert set(labels.source.tolist()) == {1}
    solver = Solver(*SMALL, table_bits=16)
    for at in range(0, len(labels), 9):
        exact = solver.move_scores(int(labels.position[at]), int(labels.mask[at]))
        assert labels.scores[at].tolist() == [FULL if score is None else score for score in exact]
    # Before there is a network, games are drawn by lot.
    label(
        tmp_path / "early", LabelOptions(SMALL, fewest=4, network=str(tmp_path / "later"), by_network=1.0), positions=20
    )
    assert set(read_labels(tmp_path / "early").source.tolist()) == {0}


def test_two_programs_never_write_one_shard(tmp_path: Path) -> None:
    folder, _ = open_folder(tmp_path, SMALL)
    records = np.zeros(3, record_type(5))
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: write_shard(folder, 0, records), range(40)))
    assert sorted(numbers) == list(range(40))
    assert len(shards(folder)) == 40


def test_shards_are_never_overwritten(tmp_path: Path) -> None:
    folder, size = open_folder(tmp_path, SMALL)
    records = np.zeros(1, record_type(5))
    records["key"] = size.bottom
    write_shard(folder, 7, records)
    write_shard(folder, 7, records)
    assert [path.name for path in sorted(folder.glob("*.npy"))] == ["000000007.npy", "000000008.npy"]
    assert len(read_labels(folder)) == 1
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"fewest": 42}, "fewest must be 0 to 41"),
        ({"fewest": 8, "most": 7}, r"most must be 8 \(fewest\) to 41 stones, got 7"),
        ({"early": 1.5}, "early must be a share"),
        ({"follow": 9}, "follow must be 0 to 8 moves"),
        ({"early": 0.6, "middle": 0.6}, r"early \+ middle must be at most 1"),
    ],
)
def test_invalid_options_are_rejected(changes: dict[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        LabelOptions(**changes)  # type: ignore[arg-type]


def test_folders_without_labels_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make some with: regard connectx label"):
        read_labels(tmp_path)
    open_folder(tmp_path, SMALL)
    with pytest.raises(ValueError, match="contains labels of 4x5x3"):
        open_folder(tmp_path, (6, 7, 4))
    np.save(tmp_path / "000000001.npy", np.zeros(3))
    with pytest.raises(ValueError, match="is not a file of labels with 5 columns"):
        read_labels(tmp_path)
    (tmp_path / "labels.json").write_text("{}")
    with pytest.raises(ValueError, match="is not written by regard connectx label"):
        read_labels(tmp_path)
