"""Draw the pictures of docs/attribution.md: `python docs/pictures/repeats.py RUN`.

RUN is the folder of `regard train language --data repeats --store float16 --out RUN`. Writes the curves of its training
to repeats.svg, and the head atlas of the shipped model to atlas-repeats.svg.
"""

import sys
from pathlib import Path

import regard
from regard import training

FOLDER = Path(__file__).parent

if __name__ == "__main__":
    rows = training.read_metrics(Path(sys.argv[1]) / "metrics.jsonl")
    curves = regard.pictures.training_curves(rows, title="A decoder on repeated random tokens")
    run = training.load("repeats")
    atlas = regard.atlas(run.model.eval(), run.tokenizer)
    print(curves.save(FOLDER / "repeats.svg"), atlas.picture().save(FOLDER / "atlas-repeats.svg"))
