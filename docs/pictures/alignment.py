"""The picture of the translator's alignment in the README: `python docs/pictures/alignment.py`.

The shipped model `phrases` translates a sentence that it was not trained on; the picture shows what each written word
attended to, the mean over the heads of the decoder's last layer. `regard train translate` draws the same of its run.
"""

from pathlib import Path

from regard import training
from regard.cli.train import align

SENTENCE = "The cat sat on the mat"

if __name__ == "__main__":
    run = training.load("phrases")
    print(align(run, SENTENCE, run.generate(SENTENCE)).save(Path(__file__).with_suffix(".svg")))
