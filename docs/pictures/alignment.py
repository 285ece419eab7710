"""Draw the alignment picture of the README: `python docs/pictures/alignment.py`.

The shipped model `phrases` translates a sentence that is not in its training data. The picture shows what each written
word attended to: the mean over the heads of the decoder's last layer. `regard generate phrases "…" --picture FILE`
draws the same.
"""

from pathlib import Path

from regard import training
from regard.cli.train import draw_alignment

SENTENCE = "The cat sat on the mat"

if __name__ == "__main__":
    alignment = training.load("phrases").alignment(SENTENCE)
    print(draw_alignment(alignment).save(Path(__file__).with_suffix(".svg")))
