"""`regard connectx quality`: compare the moves of players with perfect play on standard positions."""

from typing import Annotated

from regard.cli.connectx.options import JsonFile, Processes, write_json
from regard.cli.options import Address, EngineName, argument, option
from regard.cli.progress_bar import count_bar
from regard.connectx.players.registry import PLAYER_NAMES


def quality(
    players: Annotated[list[str], argument("PLAYER...", f"One or more players: {PLAYER_NAMES}.")],
    sets: Annotated[
        str | None,
        option("FOLDER", "Folder with the six standard sets L1_R1.txt … L3_R1.txt; default: a shipped sample."),
    ] = None,
    first: Annotated[int, option("N", "Use the first N positions of each set; 0 uses all.")] = 0,
    processes: Processes = 0,
    engine: EngineName = "processes",
    address: Address = None,
    json: JsonFile = None,
) -> None:
    """Compare players with perfect play: share of moves that lose a win or a draw, and share of perfect moves.

    The shipped sample has 40 positions of each of the six standard sets, from endgame (L3) to opening (L1).

    Example: regard connectx quality random minimax:6 mcts:1000
    """
    from rich.console import Console

    from regard.connectx import player
    from regard.connectx.arena import move_quality, report
    from regard.parallel import make_engine

    for name in players:
        player(name)  # raises the error for an unknown name
    files = move_quality.find_sets(sets or move_quality.SHIPPED_SETS)
    positions = {name: move_quality.read_positions(file)[: first or None] for name, file in files.items()}
    count = len(players) * sum(map(len, positions.values()))
    with make_engine(engine, address, processes) as workers, count_bar("choosing moves", count) as advance:
        grades = move_quality.grade_players(players, positions, engine=workers, on_positions=advance)
    if json != "-":
        Console().print(report.sets_table(grades))
    write_json({name: {s: g.to_dict() for s, g in by_set.items()} for name, by_set in grades.items()}, json)
