"""Tables for the terminal: arena results, move quality, and validation of a submission."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from regard.connectx.arena.move_quality import SET_NAMES, Grades, total
from regard.connectx.kaggle.validation import Match
from regard.connectx.players.registry import opening_table_note


def players_table(results: Mapping[str, Any]) -> Table:
    """Return a table of the players of `ArenaResults.to_dict()`, strongest first."""
    settings = results["settings"]
    size = "×".join(map(str, settings["size"]))
    names = ("player", "Elo", "±95 %", "games", "W", "D", "L", "points", "95 %", "slowest")
    table = _new_table(f"Arena on {size}, openings: {settings['openings']}", names)
    for player in sorted(results["players"], key=lambda player: -player["elo"]):
        failed = ", ".join(f"{count} {status}" for status, count in player["failed"].items())
        name = player["name"] + (f" ({failed})" if failed else "")
        elo = (f"{player['elo']:+.0f}".replace("-", "−"), f"{player['elo_margin']:.0f}")
        slowest = f"{1000 * player['slowest_move']:.0f} ms"
        table.add_row(name, *elo, str(player["games"]), *_score_cells(player), slowest)
    table.caption = opening_table_note(player["name"] for player in results["players"])
    return table


def pairings_table(results: Mapping[str, Any]) -> Table:
    """Return a table with one row per pairing and the verdict of the sequential test."""
    names = ("", "", "W", "D", "L", "points", "95 %", "decided")
    table = _new_table("Pairings", names, left=("", "decided"), wrapped=names)
    for pairing in results["pairings"]:
        better = {"better": pairing["first"], "worse": pairing["second"]}.get(pairing["decided"])
        verdict = f"{better} is better" if better else pairing["decided"]
        table.add_row(pairing["first"], pairing["second"], *_score_cells(pairing), verdict)
    return table


def _score_cells(entry: Mapping[str, Any]) -> list[str]:
    interval = f"{100 * entry['score_low']:.0f}–{100 * entry['score_high']:.0f}"
    return [*(str(entry[name]) for name in ("wins", "draws", "losses")), f"{100 * entry['score']:.1f} %", interval]


def quality_table(grades: Mapping[str, Mapping[int, Grades]], step: int = 6) -> Table:
    """Return a table of the moves that keep the value and of the perfect moves, by ply."""
    last = max((max(by_ply) for by_ply in grades.values()), default=0)
    first = min((min(by_ply) for by_ply in grades.values()), default=0)
    spans = [range(start, start + step) for start in range(first - first % step, last + 1, step)]
    names = ("player", "moves", *(f"ply {span[0]}–{span[-1]}" for span in spans), "all")
    table = _new_table("Moves that keep the value / perfect moves, in % of all moves", names, wrapped=names)
    for player, by_ply in grades.items():
        parts = [total(by_ply[ply] for ply in span if ply in by_ply) for span in spans]
        sum_of_all = total(by_ply.values())
        table.add_row(player, f"{sum_of_all.moves:.0f}", *map(_shares, parts), _shares(sum_of_all))
    return table


def sets_table(results: Mapping[str, Mapping[str, Grades]]) -> Table:
    """Return a table of errors and perfect moves on the standard sets, with two rows per player."""
    table = _new_table("Standard sets, in % of the positions", ("player", "", *SET_NAMES), left=("player", ""))
    for player, grades in results.items():
        table.add_row(player, "error", *(f"{100 * grades[name].error:.1f}" for name in SET_NAMES))
        perfect = (f"{100 * grades[name].to_dict()['perfect']:.1f}" for name in SET_NAMES)
        table.add_row("", "perfect", *perfect, style="dim", end_section=True)
    table.caption = opening_table_note(results)
    return table


def validation_table(file: str, matches: Sequence[Match]) -> Table:
    """Return a table with one row per match of a validation."""
    words = ("board", "against", "as", "result")
    names = (*words, "moves", "fall-\nback", "errors", "1st\nmove", "slowest", "bank")
    table = _new_table(f"{file} in kaggle-environments", names, left=words, wrapped=())
    problems = []
    for match in matches:
        size, side = "×".join(map(str, match.size)), ("first", "second")[match.side - 1]
        times = (f"{match.first_move:.1f} s", f"{match.slowest_later:.2f} s", f"{match.bank:.0f} s")
        counts = (str(match.moves), str(match.fallback), "–" if match.errors is None else str(match.errors))
        table.add_row(size, match.opponent, side, match.result, *counts, *times)
        if match.problem:
            problems.append(f"{size} against {match.opponent} as {side}: {match.problem}")
    table.caption = "\n".join(problems) or None
    return table


def _shares(grades: Grades) -> str:
    return f"{100 * (1 - grades.error):.0f} / {100 * grades.to_dict()['perfect']:.0f}" if grades.moves else "–"


def _new_table(
    title: str, names: Sequence[str], left: Sequence[str] = ("player",), wrapped: Sequence[str] = ("player",)
) -> Table:
    """Return a table with these columns; those in `left` are aligned left, and those in `wrapped` may be wrapped."""
    table = Table(
        title=title, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False,
        collapse_padding=True,
    )  # fmt: skip
    for name in names:
        side: Any = "left" if name in left else "right"
        table.add_column(name, justify=side, no_wrap=name not in wrapped, overflow="fold")
    return table
