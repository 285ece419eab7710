"""What an arena and its grades look like in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from regard.connectx.arena.move_quality import SETS, Grades, total
from regard.connectx.kaggle.validation import Match


def standing_table(standing: Mapping[str, Any]) -> Table:
    """Players, strongest first (of `Standing.to_dict()`)."""
    settings = standing["settings"]
    size = "×".join(map(str, settings["size"]))
    table = _empty(f"Arena on {size}, openings: {settings['openings']}")
    for name in ("player", "Elo", "±95 %", "games", "W", "D", "L", "points", "95 %", "slowest"):
        table.add_column(name, justify="left" if name == "player" else "right", no_wrap=name != "player")
    for one in sorted(standing["players"], key=lambda one: -one["elo"]):
        failed = ", ".join(f"{count} {status}" for status, count in one["failed"].items())
        table.add_row(
            one["name"] + (f" ({failed})" if failed else ""),
            f"{one['elo']:+.0f}".replace("-", "−"),
            f"{one['elo_margin']:.0f}",
            str(one["games"]),
            str(one["wins"]),
            str(one["draws"]),
            str(one["losses"]),
            f"{100 * one['score']:.1f} %",
            f"{100 * one['score_low']:.0f}–{100 * one['score_high']:.0f}",
            f"{1000 * one['slowest_move']:.0f} ms",
        )
    return table


def pairings_table(standing: Mapping[str, Any]) -> Table:
    """One row a pairing, with what is decided."""
    table = _empty("Pairings")
    for name in ("", "", "W", "D", "L", "points", "95 %", "decided"):
        table.add_column(name, justify="left" if name in ("", "decided") else "right")
    for one in standing["pairings"]:
        table.add_row(
            one["first"],
            one["second"],
            str(one["wins"]),
            str(one["draws"]),
            str(one["losses"]),
            f"{100 * one['score']:.1f} %",
            f"{100 * one['score_low']:.0f}–{100 * one['score_high']:.0f}",
            _verdict(one),
        )
    return table


def quality_table(graded: Mapping[str, Mapping[int, Grades]], step: int = 6) -> Table:
    """The share of moves that keep the value, and of perfect ones, by ply."""
    table = _empty("Moves that keep the value / perfect moves, in %, graded by the solver")
    last = max((max(by_ply) for by_ply in graded.values()), default=0)
    first = min((min(by_ply) for by_ply in graded.values()), default=0)
    spans = [range(start, start + step) for start in range(first - first % step, last + 1, step)]
    for name in ("player", "moves", *(f"ply {span[0]}–{span[-1]}" for span in spans), "all"):
        table.add_column(name, justify="left" if name == "player" else "right")
    for player, by_ply in graded.items():
        parts = [total({ply: by_ply[ply] for ply in span if ply in by_ply}) for span in spans]
        whole = total(dict(by_ply))
        table.add_row(player, f"{whole.moves:.0f}", *map(_shares, parts), _shares(whole))
    return table


def sets_table(found: Mapping[str, Mapping[str, Grades]]) -> Table:
    """Error and perfect moves on the standard sets, two rows a player."""
    table = _empty("Standard sets, in % of the positions")
    for name in ("player", "", *SETS):
        table.add_column(name, justify="left" if name in ("player", "") else "right", no_wrap=name != "player")
    for player, grades in found.items():
        table.add_row(player, "error", *(f"{100 * grades[one].error:.1f}" for one in SETS))
        perfect = (f"{100 * grades[one].to_dict()['perfect']:.1f}" for one in SETS)
        table.add_row("", "perfect", *perfect, style="dim", end_section=True)
    return table


def validation_table(file: str, matches: Sequence[Match]) -> Table:
    """What Kaggle would say, a row a match."""
    table = _empty(f"{file} in kaggle-environments")
    words = ("against", "as", "status", "result")
    for name in ("board", *words, "moves", "1st move", "slowest", "bank"):
        table.add_column(name, justify="left" if name in words else "right", no_wrap=name != "result")
    for one in matches:
        table.add_row(
            "×".join(map(str, one.size)),
            one.opponent,
            ("first", "second")[one.side - 1],
            one.status,
            one.result if one.valid else f"lost: {one.problem}",
            str(one.moves),
            f"{one.first_move:.2f} s",
            f"{one.slowest_later:.3f} s",
            f"{one.bank:.1f} s",
        )
    return table


def _verdict(pairing: Mapping[str, Any]) -> str:
    better = {"better": pairing["first"], "worse": pairing["second"]}.get(pairing["decided"])
    return f"{better} is better" if better else pairing["decided"]


def _shares(grades: Grades) -> str:
    return f"{100 * (1 - grades.error):.0f} / {100 * grades.to_dict()['perfect']:.0f}" if grades.moves else "–"


def _empty(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
