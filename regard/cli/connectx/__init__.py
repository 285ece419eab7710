"""`regard connectx`: play, measure, export and validate players."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.connectx.compare import compare
from regard.cli.connectx.label import label
from regard.cli.connectx.memorize import memorize
from regard.cli.connectx.solve import book, solve
from regard.cli.connectx.train import train
from regard.cli.errors import report_user_errors
from regard.cli.progress_bar import count_bar

if TYPE_CHECKING:
    from regard.connectx.arena.move_quality import Grades
    from regard.connectx.arena.round_robin import Plan, Standing

app = typer.Typer(
    name="connectx",
    help="Connect Four of any size: play, measure and export players.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(solve)
app.command()(book)
app.command()(label)
app.command()(train)
app.command()(memorize)
app.command()(compare)

PLAYERS = (
    "random, greedy, minimax:5, minimax:100ms, mcts:1000, mcts:100ms, solver, network, network:200, network:RUN:200, "
    "or a Kaggle agent's main.py"
)
Size = Annotated[str, typer.Option(metavar="ROWSxCOLUMNSxINAROW", help="The board.")]


@app.command()
def play(
    opponent: Annotated[str, typer.Argument(metavar="PLAYER", help=f"Whom to play: {PLAYERS}.")] = "minimax:8",
    second: Annotated[bool, typer.Option("--second", help="Let the opponent begin.")] = False,
    moves: Annotated[str, typer.Option(metavar="MOVES", help="Begin after these moves, columns from 1.")] = "",
    hints: Annotated[bool, typer.Option("--hints", help="Show what every column leads to, before every move.")] = False,
    size: Size = "6x7x4",
) -> None:
    """Play in the terminal. Type a column, u to undo, h for hints, q to leave.

    Example: regard connectx play solver --second --hints
    """
    with report_user_errors("connectx play"):
        from regard.connectx import Board, Solver, fits, play_in_terminal, player

        board = Board.from_moves(moves, *read_size(size))
        side = 2 if second else 1
        if board.over:
            raise ValueError(f"the game {moves} is over; give fewer moves")
        seated = player(opponent)

        @cache
        def solver() -> "Solver":  # made when first asked: it takes memory, and perhaps a compiler
            return Solver(board.rows, board.columns, board.inarow)

        scores = (lambda now: solver().scores(now)) if fits(board.shape) else None
        play_in_terminal(seated, board, side=side, hints=scores, always=hints)


@app.command()
def arena(
    players: Annotated[list[str], typer.Argument(metavar="PLAYER...", help=f"Two or more: {PLAYERS}.")],
    games: Annotated[int, typer.Option(metavar="N", help="Games for each pairing, half with each side.")] = 100,
    openings: Annotated[str, typer.Option(metavar="KIND", help="balanced, random, none, or a file.")] = "balanced",
    plies: Annotated[int, typer.Option(metavar="N", help="Moves in an opening.")] = 8,
    stop: Annotated[float, typer.Option(metavar="ELO", help="End a pairing that is decided at this difference.")] = 0.0,
    quality: Annotated[bool, typer.Option("--quality", help="Grade every move by the solver.")] = False,
    processes: Annotated[int, typer.Option(metavar="N", help="0: one for each core.")] = 0,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write the games here; go on from there.")] = None,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write the result; - for standard output.")] = None,
    picture: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it as .png, .svg, .pdf or .html.")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of openings and of players that draw lots.")] = 0,
    size: Size = "6x7x4",
) -> None:
    """Measure players against each other: everyone against everyone, both sides of every opening.

    Ctrl-C stops it; with --out the same command goes on from there.

    Example: regard connectx arena greedy minimax:4 mcts:500 --games 40 --out games.jsonl --picture table.png
    """
    with report_user_errors("connectx arena"):
        from regard.connectx.arena import report
        from regard.connectx.arena import round_robin as arenas

        plan = arenas.Plan(
            tuple(players), games=games, opening=openings, size=read_size(size), plies=plies, seed=seed, stop_at=stop
        )
        standing, stopped = _arena(plan, out, processes or arenas.cores())
        found = standing.to_dict()
        graded = None
        if quality and not stopped:
            graded = _graded(standing)
            found["quality"] = {
                name: {str(ply): grades.to_dict() for ply, grades in sorted(by_ply.items())}
                for name, by_ply in graded.items()
            }
        if json != "-":
            from rich.console import Console

            console = Console()
            console.print(report.standing_table(found))
            if len(plan.pairings) > 1 or stop:
                console.print(report.pairings_table(found))
            if graded is not None:
                console.print(report.quality_table(graded))
        _write_json(found, json)
        if picture is not None:
            from regard.pictures import crosstable

            elo = [one["elo"] for one in found["players"]]
            margins = [one["elo_margin"] for one in found["players"]]
            crosstable(players, *standing.counts(), elo, margins, title=f"Arena on {size}").save(picture)
            typer.echo(f"wrote {picture}", err=True)
        if stopped:
            again = f"the same command goes on from {out}" if out else "with --out FILE it could go on"
            typer.echo(f"stopped after {len(standing.games)} games; {again}", err=True)
            raise typer.Exit(130)


@app.command()
def quality(
    players: Annotated[list[str], typer.Argument(metavar="PLAYER...", help=f"One or more: {PLAYERS}.")],
    sets: Annotated[
        str, typer.Option(metavar="FOLDER", help="With the six standard sets L1_R1.txt … L3_R1.txt.")
    ] = "../shared/data/connect4",
    first: Annotated[int, typer.Option(metavar="N", help="Only the first N positions of each; 0 for all.")] = 0,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write the result; - for standard output.")] = None,
) -> None:
    """Grade players by perfect play, on the standard sets: moves that lose something, and perfect ones.

    Example: regard connectx quality random minimax:6 mcts:1000 --first 200
    """
    with report_user_errors("connectx quality"):
        from rich.console import Console

        from regard.connectx import player
        from regard.connectx.arena import move_quality as qualities
        from regard.connectx.arena import report

        seats = {name: player(name, seed=0) for name in players}
        paths = qualities.find_sets(sets)
        found: dict[str, dict[str, qualities.Grades]] = {name: {} for name in players}
        positions = {name: qualities.read_set(path)[: first or None] for name, path in paths.items()}
        with count_bar("grading", len(players) * sum(map(len, positions.values()))) as advance:
            for name, seat in seats.items():
                for one, given in positions.items():
                    found[name][one] = qualities.grade_set(seat, given, advance)
        if json != "-":
            Console().print(report.sets_table(found))
        _write_json({name: {s: g.to_dict() for s, g in grades.items()} for name, grades in found.items()}, json)


@app.command()
def export(
    player: Annotated[
        str, typer.Argument(metavar="PLAYER", help="random, greedy, minimax:…, mcts:…, solver, network:….")
    ],
    out: Annotated[str, typer.Option(metavar="FILE", help="A .py, or a .tar.gz with main.py.")] = "submission.py",
) -> None:
    """Write a player as one self-contained file that Kaggle accepts.

    Example: regard connectx export minimax:900ms --out submission.py
    """
    with report_user_errors("connectx export"):
        from regard.connectx import export as write

        path = write(player, out)
        typer.echo(f"wrote {path}, {path.stat().st_size:,} bytes; try it: regard connectx validate {path}")


@app.command()
def validate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A submission: .py or .tar.gz.")],
    games: Annotated[int, typer.Option(metavar="N", help="Games for each opponent, side and board.")] = 1,
    json: Annotated[str | None, typer.Option(metavar="FILE", help="Write the result; - for standard output.")] = None,
) -> None:
    """Play a submission in kaggle-environments, and say what Kaggle would. Exit code 1 if it fails.

    It meets itself, random and negamax, on both sides, on 6×7×4 and on a smaller board.

    Example: regard connectx validate submission.py
    """
    with report_user_errors("connectx validate"):
        from dataclasses import asdict

        from rich.console import Console

        from regard.connectx.arena import report
        from regard.connectx.kaggle import validation

        episodes = validation.plan(games)
        matches = []
        with count_bar("playing", len(episodes)) as advance:
            for match in validation.validate(file, episodes):
                matches.append(match)
                advance()
        if json != "-":
            Console().print(report.validation_table(Path(file).name, matches))
        bad = sum(not match.valid for match in matches)
        _write_json({"file": file, "valid": not bad, "matches": [asdict(match) for match in matches]}, json)
        verdict = f"failed in {bad} of {len(matches)} matches" if bad else f"valid in all {len(matches)} matches"
        typer.echo(verdict, err=True)
        if bad:
            raise typer.Exit(1)


def read_size(text: str) -> tuple[int, int, int]:
    """A board's size from text.

    >>> read_size("6x7x4")
    (6, 7, 4)
    """
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 3 or not all(part.strip().isdigit() for part in parts):
        raise ValueError(f"--size takes rows, columns and how many in a row win, such as 6x7x4, got {text!r}")
    rows, columns, inarow = (int(part) for part in parts)
    return rows, columns, inarow


def _arena(plan: "Plan", out: str | None, processes: int) -> tuple["Standing", bool]:
    """Play, with progress; what there is, and whether it was stopped."""
    from regard.connectx.arena import round_robin as arenas

    standing = arenas.Standing(plan)
    stopped = False
    with count_bar("playing", plan.games * len(plan.pairings)) as advance:
        seen = 0

        def on_games(now: "Standing") -> None:
            nonlocal standing, seen
            advance(len(now.games) - seen)
            standing, seen = now, len(now.games)

        try:
            standing = arenas.run(plan, file=out, processes=processes, on_games=on_games)
        except KeyboardInterrupt:
            stopped = True
    return standing, stopped


def _graded(standing: "Standing") -> dict[str, dict[int, "Grades"]]:
    """Every move of an arena, graded by the solver, with progress."""
    from regard.connectx import Solver
    from regard.connectx.arena import move_quality as qualities

    solver = Solver(*standing.plan.size)
    with count_bar("grading", len(standing.games)) as advance:
        return qualities.grade_games(standing.games, solver.scores, standing.plan.size, advance)


def _write_json(found: object, file: str | None) -> None:
    from json import dumps

    if file == "-":
        typer.echo(dumps(found, indent=1, ensure_ascii=False))
    elif file is not None:
        path = Path(file)
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        temporary.replace(path)
        typer.echo(f"wrote {file}", err=True)
