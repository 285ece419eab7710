"""What each head of the lab's models does: the labels of `regard.atlas` that ablation confirms.

They are computed once for the weights that come with regard and with the package of MiniLM, and stored in
head_labels.json, because the atlas of MiniLM takes half a minute. `python -m regard.lab.models.head_labels` computes
the file. A model with other weights has no labels.
"""

import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from regard.files import write_atomic
from regard.lab.models.watched_models import NAMES, LoadedModel, load_model, watch_lock

FILE = Path(__file__).with_name("head_labels.json")
Labels = dict[str, list[list[str]]]  # by module and head


def head_labels(model: LoadedModel) -> Labels:
    """Return the stored labels of a model's heads."""
    stored = _stored().get(model.name)
    return stored["labels"] if stored is not None and stored["weights"] == checksum(model.name) else {}


@cache
def _stored() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


@cache
def checksum(name: str) -> int:
    """Return a checksum of the weights of a model."""
    total = 0
    for tensor in load_model(name).named.model.state_dict().values():
        total = zlib.crc32(tensor.contiguous().numpy(), total)
    return total


def compute_labels(name: str) -> Labels:
    """Return the confirmed labels of a model's heads, by its atlas."""
    import regard

    model = load_model(name)
    with watch_lock:
        vocabulary = model.named.tokenizer if model.run is None else model.run.tokenizer
        result = regard.atlas(model.named.model, vocabulary, length=min(64, model.context), items=2, progress=False)
    labels: Labels = {}
    for head in result.heads:
        labels.setdefault(head.module, []).append([kind.replace(" ", "-") for kind in head.confirmed])
    return labels


if __name__ == "__main__":
    models = {name: {"weights": checksum(name), "labels": compute_labels(name)} for name in NAMES}
    write_atomic(FILE, json.dumps(models, indent=1) + "\n")
