"""The arena: round robins, repeatability, stopped runs, and pairings that end when they are decided."""

import json
from collections import Counter
from pathlib import Path

import pytest

from regard.connectx import Board, openings
from regard.connectx.arena.round_robin import ArenaPlan, ArenaResults, run_arena

PLAN = ArenaPlan(("random", "greedy", "minimax:2"), games=6, opening="random", plies=4)


def test_a_round_robin(tmp_path: Path) -> None:
    standing = run_arena(PLAN, file=tmp_path / "games.jsonl")
    assert len(standing.games) == 18
    sides = Counter((game.first, game.second) for game in standing.games)
    assert set(sides.values()) == {3}
    assert len(sides) == 6
    for game in standing.games:
        assert game.moves.startswith(game.opening)
        assert len(game.opening) == 4
        assert Board.from_moves(game.moves).over
    for a, b in PLAN.pairings:
        both = Counter(game.opening for game in standing.games if {game.first, game.second} == {a, b})
        assert set(both.values()) == {2}
        assert len(standing.pairs(a, b)) == 3
    found = standing.to_dict()
    assert sum(one["wins"] + one["losses"] + one["draws"] for one in found["players"]) == 36
    assert found["players"][0]["elo"] < found["players"][2]["elo"]
    json.dumps(found)
    assert run_arena(PLAN, file=tmp_path / "games.jsonl").games == standing.games


def test_an_arena_is_repeatable() -> None:
    assert [(g.moves, g.winner) for g in run_arena(PLAN).games] == [(g.moves, g.winner) for g in run_arena(PLAN).games]


def test_several_processes_play_the_same_games() -> None:
    plan = ArenaPlan(("random", "greedy"), games=6, opening="random", plies=4)
    alone, together = run_arena(plan), run_arena(plan, processes=2)
    assert {g.moves for g in alone.games} == {g.moves for g in together.games}
    assert len(together.games) == 6


def test_a_stopped_run_can_be_continued(tmp_path: Path) -> None:
    file = tmp_path / "games.jsonl"

    class Stop(Exception):
        pass

    def stop_soon(standing: ArenaResults) -> None:
        if len(standing.games) >= 8:
            raise Stop

    with pytest.raises(Stop):
        run_arena(PLAN, file=file, on_games=stop_soon)
    before = file.read_bytes()
    file.write_bytes(before[:-20])  # the last line was cut short
    played: list[int] = []
    standing = run_arena(PLAN, file=file, on_games=lambda now: played.append(len(now.games)))
    assert played[0] == 7
    assert len(standing.games) == 18
    whole = run_arena(PLAN)
    assert {(g.first, g.second, g.moves) for g in standing.games} == {(g.first, g.second, g.moves) for g in whole.games}
    size = file.stat().st_size
    assert len(run_arena(PLAN, file=file).games) == 18  # nothing is left to play
    assert file.stat().st_size == size
    # More games and more players begin from what is there.
    more = run_arena(ArenaPlan((*PLAN.players, "minimax:1"), games=8, opening="random", plies=4), file=file)
    assert len(more.games) == 4 * 3 // 2 * 8
    with pytest.raises(ValueError, match="contains games of another arena"):
        run_arena(ArenaPlan(PLAN.players, games=6, opening="none"), file=file)


def test_a_decided_pairing_ends() -> None:
    plan = ArenaPlan(("random", "minimax:3"), games=200, opening="random", plies=2, stop_at=100)
    standing = run_arena(plan)
    assert standing.verdict("random", "minimax:3") == "worse"
    assert standing.verdict("minimax:3", "random") == "better"
    assert 16 <= len(standing.games) < 60


def test_a_bad_agent_does_not_stop_the_others(tmp_path: Path) -> None:
    bad = tmp_path / "main.py"
    bad.write_text("def agent(observation, configuration):\n    raise RuntimeError('no')\n")
    standing = run_arena(ArenaPlan((str(bad), "random", "greedy"), games=2, opening="none"))
    assert len(standing.games) == 6
    failed = next(one for one in standing.to_dict()["players"] if one["name"] == str(bad))
    assert failed["failed"] == {"ERROR": 4}
    assert failed["losses"] == 4


def test_openings(tmp_path: Path) -> None:
    short, long = list(openings("random", 5, plies=6)), list(openings("random", 20, plies=6))
    assert long[:5] == short
    assert len(set(long) | {board.mirror() for board in long}) >= 38  # a mirrored one is not another
    assert list(openings("none", 50)) == [Board()]
    file = tmp_path / "openings.txt"
    file.write_text("44  # centre\n\n123\n")
    assert [board.moves for board in openings(str(file), 9)] == ["44", "123"]
    file.write_text("1212121\n")
    with pytest.raises(ValueError, match="after 1212121 the game is over"):
        list(openings(str(file), 9))
    with pytest.raises(ValueError, match="must be balanced, random, none or a file"):
        openings("blanced", 3)
    assert len(list(openings("random", 1000, (2, 2, 2), plies=1))) == 0  # every answer there wins at once


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"players": ("random",)}, "two or more different players, got random"),
        ({"players": ("random", "random")}, "two or more different players"),
        ({"games": 5}, "games must be even"),
        ({"games": 0}, "at least 2, .* got 0"),
    ],
)
def test_invalid_plans_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ArenaPlan(**{"players": ("random", "greedy")} | options)  # type: ignore[arg-type]


def test_an_unknown_player_is_reported_before_any_game(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'greedy'"):
        run_arena(ArenaPlan(("random", "gredy")), file=tmp_path / "games.jsonl")
    assert not (tmp_path / "games.jsonl").exists()
