"""Operations and peak bytes that `regard.cost` predicts, compared with measurements.

    python bench/cost.py

Prints a table of ratios, predicted / measured, at 512, 2048 and 8192 tokens and writes bench/results/cost.json.
The target: operations exact, bytes within 5 %. Operations are counted from the shapes of the calls that torch's
profiler saw, bytes are those its allocator handed out (regard/costs/measurement.py).
"""

import json
import sys
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from side_by_side import RESULTS, machine, one_thread

import regard
from regard import masks

LENGTHS = [512, 2048, 8192]
CASES: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"mask": masks.causal()},
    "window of 256": {"mask": masks.window(keys=256)},
    "2 key/value heads": {"kv_heads": 2},
    "100 queries": {"queries": 100},
    "one token, KV cache": {"cached": True},
    "weights written out": {"materialised": True},
    "causal, with backward": {"mask": masks.causal(), "backward": True},
    "window, with backward": {"mask": masks.window(keys=256), "backward": True},
}


def main() -> int:
    """Measure, print and write the table; return 1 if a target is missed."""
    one_thread()
    torch.manual_seed(0)
    table = Table(title="predicted / measured", caption=f"{machine()}; 1 thread", title_justify="left")
    for name in ("what", "S", "operations", "peak bytes", "measured peak", "time", "met"):
        table.add_column(name, justify="left" if name == "what" else "right")
    rows, missed = [], 0
    for what, options in CASES.items():
        # 8 heads of 8192 × 8192 weights need 2 GiB of memory.
        for one in regard.cost(seq=LENGTHS, **options).measure(repeats=1).measurements:
            exact, near = one.operations == one.predicted_operations, abs(one.peak_ratio - 1) <= 0.05
            missed += not (exact and near)
            rows.append(
                {
                    "what": what, "at": one.seq, "operations": [one.predicted_operations, one.operations],
                    "peak_bytes": [one.predicted_peak, one.peak], "seconds": one.seconds,
                }
            )  # fmt: skip
            table.add_row(
                what,
                str(one.seq),
                "exact" if exact else f"{one.operations_ratio:.6f}",
                f"{one.peak_ratio:.3f}",
                f"{one.peak / 2**20:,.2f} MiB",
                f"{1000 * one.seconds:,.1f} ms",
                "met" if exact and near else "missed",
            )
    Console(width=140 if not sys.stdout.isatty() else None).print(table)
    RESULTS.mkdir(exist_ok=True)
    content = {"machine": machine(), "command": "python bench/cost.py", "rows": rows}
    (RESULTS / "cost.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
