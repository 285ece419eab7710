"""Time to import regard, compared with importing torch alone.

    python bench/imports.py

Prints the best of several fresh interpreters, interleaved, and writes bench/results/imports.json. The target:
`regard.attend` is ready within 0.3 s of what importing torch takes, and help needs no torch at all.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 7
RESULTS = Path(__file__).parent / "results" / "imports.json"
CASES = {
    "python": "pass",
    "import torch": "import torch",
    "import regard": "import regard",
    "regard.trace": "import regard; regard.trace",
    "regard.attend": "import regard; regard.attend",
    "regard --help": "from regard.cli import main; main(['--help'])",
}


def seconds(code: str) -> float:
    """Return the wall time of a new interpreter that runs the code."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Measure, print and write the table."""
    times = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, code in CASES.items():
            times[name].append(seconds(code))
    best = {name: min(measured) for name, measured in times.items()}
    torch = best["import torch"]
    print(f"{'':16} {'seconds':>8} {'of torch':>9}    (best of {ROUNDS})")
    for name, measured in best.items():
        print(f"{name:16} {measured:8.3f} {measured / torch:8.2f}x")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"rounds": ROUNDS, "seconds": best}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
