"""Results of the default training runs: translation of held-out dates and phrases, by Transformer and LSTM.

    python bench/training.py [dates phrases lstm lstm-attention]

Each run is the command that the table names, in a fresh folder below bench/results/runs. The LSTMs get as many steps as
take the processor time that the transformer takes on the dates (69 ms a step against 60 and 112); the table shows what
they took. Writes bench/results/training.json after every run, so that runs can be asked for one by one.
"""

import json
import shutil
import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from side_by_side import RESULTS, machine

from regard.training import make_run_config, train
from regard.training.launch import TrainingResult
from regard.training.progress import show_progress

RUNS: dict[str, dict[str, Any]] = {
    "dates": {"data": ("dates",)},
    "phrases": {"data": ("phrases",)},
    "lstm": {"data": ("dates",), "model": "lstm", "settings": {"steps": 2720}},
    "lstm-attention": {"data": ("dates",), "model": "lstm-attention", "settings": {"steps": 1480}},
}


def trained(name: str, console: Console) -> TrainingResult:
    """Return the settings of the default run of this name."""
    config = make_run_config("translate", **RUNS[name])
    folder = RESULTS / "runs" / name
    shutil.rmtree(folder, ignore_errors=True)
    console.print(name)
    with show_progress(config.settings, console) as report:
        return train(config, folder, report=report)


def command(name: str) -> str:
    """Return the command that starts this run."""
    run = RUNS[name]
    other = f" --model {run['model']} --steps {run['settings']['steps']}" if "model" in run else ""
    return f"regard train translate --data {run['data'][0]}{other}"


def main() -> int:
    """Run, print and write the table; return 1 if a bound is missed."""
    console = Console(stderr=True)
    file = RESULTS / "training.json"
    RESULTS.mkdir(exist_ok=True)
    rows: dict[str, Any] = {}
    if file.exists():
        rows = {row["name"]: row for row in json.loads(file.read_text(encoding="utf-8"))["rows"]}
    for name in sys.argv[1:] or RUNS:
        finished = trained(name, console)
        cat = finished.run.generate("The cat sat on the mat") if name == "phrases" else None
        rows[name] = {"name": name, "command": command(name), **finished.results, "cat": cat}
        content = {"machine": machine(), "command": "python bench/training.py", "rows": list(rows.values())}
        file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    table = Table(title="Default runs, evaluated on held-out data", caption=machine(), title_justify="left")
    for column in ("command", "exact", "of", "bound", "steps", "parameters", "processor", "elapsed"):
        table.add_column(column, justify="left" if column == "command" else "right")
    missed = False
    for name, row in rows.items():
        bound = {"dates": 0.995, "phrases": 0.98}.get(name)
        met = bound is None or row["exact_match"] >= bound
        missed |= not met
        table.add_row(
            row["command"], f"{100 * row['exact_match']:.2f} %", str(row["tested"]),
            "" if bound is None else f"≥ {100 * bound:g} % {'met' if met else 'missed'}", f"{row['steps']:,}",
            f"{row['parameters']:,}", f"{row['processor_seconds']:.0f} s", f"{row['seconds']:.0f} s",
        )  # fmt: skip
    Console(width=140 if not sys.stdout.isatty() else None).print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
