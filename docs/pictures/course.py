"""The course of a run of `regard connectx train`, for the docs: as its curves.png, with a title of its own.

python docs/pictures/course.py runs/ppo --title "PPO from nothing, 30 minutes on two cores" --out docs/pictures/ppo.svg
"""

import argparse
import sys
from pathlib import Path

from regard import pictures, training


def main() -> int:
    """Draw it."""
    parser = argparse.ArgumentParser(description="The course of a run.")
    parser.add_argument("run", help="folder of the run")
    parser.add_argument("--title", required=True)
    parser.add_argument("--out", required=True, help="an .svg, .png or .pdf file")
    given = parser.parse_args()
    metrics = Path(given.run) / "metrics.jsonl"
    if not metrics.is_file():
        parser.error(f"{given.run} is no run: it has no metrics.jsonl")
    print(pictures.board_training_curves(training.read_metrics(metrics), title=given.title).save(given.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
