"""Run the benchmarks and write docs/benchmarks.md: `python bench/report.py [NAME …]`.

    python bench/report.py                    run every benchmark that has no stored output
    python bench/report.py imports cost       run these, if they have no stored output
    python bench/report.py imports --again    run these again
    python bench/report.py --page             only write the page

What a benchmark prints is stored in bench/results/outputs/NAME.json with date, machine, versions and duration. After
Ctrl-C the same command continues with the benchmarks that are left; with `--again` it forgets the outputs first, so
leave that out to continue. A benchmark fails if it ends with an error; the page shows missed targets as missed.
Exit code 1 if a benchmark failed.
"""

import argparse
import ast
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from side_by_side import machine

from regard.durations import format_duration
from regard.files import read_json, write_atomic, write_json

BENCH = Path(__file__).parent
NOT_BENCHMARKS = ("report", "side_by_side")
LIBRARIES = ("torch", "numpy", "transformers", "x-transformers")
WIDTH = 110  # characters of the tables
MISSED = re.compile(r"\bmissed\s*([│|)]|$)", re.MULTILINE | re.IGNORECASE)


def benchmarks(folder: Path) -> dict[str, str]:
    """Return the benchmarks of a folder by name, each with the first line of its docstring."""
    files = [file for file in sorted(folder.glob("*.py")) if file.stem not in NOT_BENCHMARKS]
    docstrings = {file.stem: ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "" for file in files}
    return {name: re.split(r"[.:](?:\s|$)", text)[0].replace("\n", " ") for name, text in docstrings.items()}


def run(file: Path) -> dict[str, Any]:
    """Run a benchmark and return its output with date, machine, versions and duration."""
    start, root = time.monotonic(), file.parent.parent
    settings = os.environ | {"COLUMNS": str(WIDTH), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(file)]
    # A session of its own: Ctrl-C ends the benchmark and the processes it started, after it was passed on below.
    with subprocess.Popen(
        command, cwd=root, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, errors = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            raise
    failed = process.returncode not in (0, 1) or "Traceback (most recent call last)" in errors
    return {
        "command": f"python {file.parent.name}/{file.name}",
        "date": date.today().isoformat(),
        "machine": machine(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "versions": dict(_versions()),
        "seconds": round(time.monotonic() - start, 1),
        "verdict": "failed" if failed else _verdict(output, process.returncode),
        "output": output.replace(f"{root}{os.sep}", ""),
        "errors": errors[-4000:].replace(f"{root}{os.sep}", "") if failed else "",
    }


def _verdict(output: str, code: int) -> str:
    if code or MISSED.search(output):
        return "missed"
    return "met" if re.search(r"\bmet\b", output) else "no target"


def _versions() -> Iterator[tuple[str, str]]:
    yield "Python", platform.python_version()
    for name in LIBRARIES:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def page(known: dict[str, str], stored: dict[str, dict[str, Any]]) -> str:
    """Return the page: a table of all benchmarks, and the output of each that was run."""
    lines = [
        "# Benchmarks",
        "",
        "`python bench/report.py` runs the benchmarks and writes this page. Speed is measured beside another "
        "implementation in the same run, and what counts is the ratio, ours / theirs. A target that is missed is shown "
        "as missed. The load is the machine's load average at the end of the run: with a load above the number of "
        "threads of a benchmark, its times are noisy.",
        "",
        "| benchmark | what | targets | date | duration |",
        "|---|---|---|---|---|",
    ]
    for name, what in known.items():
        result = stored.get(name)
        if result is None:
            lines.append(f"| {name} | {what} | not run: `python bench/{name}.py` | | |")
        else:
            verdict = {"met": "met", "missed": "**missed**", "failed": "**failed**"}.get(result["verdict"], "none")
            took = format_duration(result["seconds"])
            lines.append(f"| [{name}](#{name}) | {what} | {verdict} | {result['date']} | {took} |")
    for name, result in stored.items():
        versions = ", ".join(f"{library} {number}" for library, number in result["versions"].items())
        facts = f"`{result['command']}`, {result['date']}, load {result['load']}, {result['machine']}; {versions}."
        text = re.sub(r"[ \t]+$", "", result["output"] + result["errors"], flags=re.MULTILINE).strip("\n")
        lines += ["", f"## {name}", "", f"{known[name]}. {facts}", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None, bench: Path = BENCH, document: Path | None = None) -> int:
    """Run the benchmarks that are asked for and write the page; return 1 if one failed, 130 after Ctrl-C."""
    known, console = benchmarks(bench), Console(stderr=True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--again", action="store_true", help="forget the stored outputs of these benchmarks first")
    parser.add_argument("--page", action="store_true", help="only write the page, from the stored outputs")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no benchmark {', '.join(unknown)}; choose from {', '.join(known)}")

    outputs = bench / "results" / "outputs"
    outputs.mkdir(parents=True, exist_ok=True)
    wanted = [] if options.page else options.names or list(known)
    lasted = {name: result["seconds"] for name, result in _stored(outputs, known).items()}
    for name in wanted if options.again else ():
        (outputs / f"{name}.json").unlink(missing_ok=True)
    left = [name for name in wanted if not (outputs / f"{name}.json").exists()]
    failed = interrupted = False
    try:
        for number, name in enumerate(left, 1):
            expected = f", took {format_duration(lasted[name])} last time" if name in lasted else ""
            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            with Progress(*columns, console=console, transient=True) as progress:
                progress.add_task(f"{name} ({number} of {len(left)}{expected})")
                result = run(bench / f"{name}.py")
            write_json(outputs / f"{name}.json", result)
            failed |= result["verdict"] == "failed"
            console.print(f"{name}: {result['verdict']}, {format_duration(result['seconds'])}", highlight=False)
    except KeyboardInterrupt:
        interrupted = True
        console.print("Interrupted. The same command (without --again) continues with the benchmarks that are left.")
    document = document or bench.parent / "docs" / "benchmarks.md"
    write_atomic(document, page(known, _stored(outputs, known)))
    console.print(f"written to {document}", highlight=False)
    return 130 if interrupted else int(failed)


def _stored(outputs: Path, known: dict[str, str]) -> dict[str, dict[str, Any]]:
    files = {name: outputs / f"{name}.json" for name in known}
    advice = "delete it and run the benchmark again"
    return {
        name: read_json(file, "the output of a benchmark", advice, "output", "verdict")
        for name, file in files.items()
        if file.exists()
    }


if __name__ == "__main__":
    sys.exit(main())
