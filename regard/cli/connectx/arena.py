"""`regard connectx arena`: measure players against each other."""

from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.connectx.options import JsonFile, Processes, Size, read_size, write_json
from regard.cli.options import Address, EngineName, argument, flag, option
from regard.cli.progress_bar import count_bar
from regard.connectx.players.registry import PLAYER_NAMES

if TYPE_CHECKING:
    from regard.connectx.arena.move_quality import Grades
    from regard.connectx.arena.round_robin import ArenaPlan, ArenaResults
    from regard.parallel import Engine


def arena(
    players: Annotated[list[str], argument("PLAYER...", f"Two or more players: {PLAYER_NAMES}.")],
    games: Annotated[int, option("N", "Number of games of each pairing, half with each side.")] = 100,
    openings: Annotated[
        str, option("KIND", "Openings: balanced, random, none, or a file of move strings.")
    ] = "balanced",
    plies: Annotated[int, option("N", "Number of moves of a balanced or random opening.")] = 8,
    stop: Annotated[float, option("ELO", "Stop a pairing decided at this Elo difference; 0 plays all games.")] = 0.0,
    quality: Annotated[bool, flag("--quality", "Compare every move with perfect play.")] = False,
    processes: Processes = 0,
    engine: EngineName = "processes",
    address: Address = None,
    out: Annotated[str | None, option("FILE", "Write the games to this file, and continue an earlier run.")] = None,
    json: JsonFile = None,
    picture: Annotated[str | None, option("FILE", "Draw the results as .png, .svg, .pdf or .html.")] = None,
    seed: Annotated[int, option("N", "Random seed of the openings and of the players.")] = 0,
    size: Size = "6x7x4",
) -> None:
    """Measure players against each other: each meets every other one, from both sides of every opening.

    Ctrl-C stops the games; with --out the same command continues.

    Example: regard connectx arena greedy minimax:4 mcts:500 --games 40 --out games.jsonl --picture table.png
    """
    from regard.connectx.arena import report
    from regard.connectx.arena.round_robin import ArenaPlan
    from regard.parallel import make_engine

    plan = ArenaPlan(
        tuple(players), games=games, opening=openings, size=read_size(size), plies=plies, seed=seed, stop_at=stop
    )
    with make_engine(engine, address, processes) as workers:
        results, stopped = _play(plan, out, workers)
    summary = results.to_dict()
    grades = None
    if quality and not stopped:
        grades = _grade(results)
        summary["quality"] = {
            name: {str(ply): grade.to_dict() for ply, grade in sorted(by_ply.items())}
            for name, by_ply in grades.items()
        }
    if json != "-":
        from rich.console import Console

        console = Console()
        console.print(report.players_table(summary))
        if len(plan.pairings) > 1 or stop:
            console.print(report.pairings_table(summary))
        if grades is not None:
            console.print(report.quality_table(grades))
    write_json(summary, json)
    if picture is not None:
        from regard.pictures import crosstable

        elo = [entry["elo"] for entry in summary["players"]]
        margins = [entry["elo_margin"] for entry in summary["players"]]
        crosstable(players, *results.counts(), elo, margins, title=f"Arena on {size}").save(picture)
        typer.echo(f"wrote {picture}", err=True)
    if stopped:
        hint = f"the same command continues from {out}" if out else "with --out FILE it could be continued"
        typer.echo(f"stopped after {len(results.games)} games; {hint}", err=True)
        raise typer.Exit(130)


def _play(plan: "ArenaPlan", out: str | None, engine: "Engine") -> tuple["ArenaResults", bool]:
    """Play with a progress bar; return the results and whether Ctrl-C stopped the games."""
    from regard.connectx.arena.round_robin import ArenaResults, run_arena

    results = ArenaResults(plan)
    with count_bar("playing", plan.games * len(plan.pairings)) as advance:
        count = 0

        def on_games(current: ArenaResults) -> None:
            nonlocal results, count
            advance(len(current.games) - count)
            results, count = current, len(current.games)

        try:
            return run_arena(plan, file=out, engine=engine, on_games=on_games), False
        except KeyboardInterrupt:
            return results, True


def _grade(results: "ArenaResults") -> dict[str, dict[int, "Grades"]]:
    """Compare every move with perfect play, with a progress bar."""
    from regard.connectx import Solver
    from regard.connectx.arena.move_quality import grade_games

    solver = Solver(*results.plan.size)
    with count_bar("comparing moves with perfect play", len(results.games)) as advance:
        return grade_games(results.games, solver.scores, results.plan.size, advance)
