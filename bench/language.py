"""The language model of `regard train language` against the same model built from torch's own layers.

    python bench/language.py [--ours RUN]

Same data, tokenizer, order of batches, optimizer and steps: the default run. What differs is the model: ours, and
`nn.TransformerEncoder` of `nn.TransformerEncoderLayer`s with a causal mask, the same sizes, embedding, positions,
dropout at the same places and tied output layer, and first weights as `nn.Transformer` draws them. Prints the
validation losses and writes bench/results/language.json; the bound: ours may be worse by 0.01 at most. `--ours RUN`
takes our figures from a run that the default command has made, instead of making it again.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from side_by_side import RESULTS, machine
from torch import Tensor, nn

from regard.models import DecoderConfig
from regard.nn import Sinusoidal
from regard.training import make_run_config, read_metrics
from regard.training.distributed import Ranks
from regard.training.loop import Loop
from regard.training.progress import show_progress
from regard.training.run_config import prepare
from regard.training.supervised import Supervised, mean_loss


class TorchDecoder(nn.Module):
    """A decoder-only model built from torch's layers."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_model)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        self.places = Sinusoidal(config.d_model)
        layer = nn.TransformerEncoderLayer(
            config.d_model, config.heads, config.inner, config.dropout, config.activation, batch_first=True,
            norm_first=config.norm == "pre",
        )  # fmt: skip
        self.layers = nn.TransformerEncoder(
            layer, config.layers, norm=nn.LayerNorm(config.d_model), enable_nested_tensor=False
        )
        for each in self.layers.layers:  # dropout at the same places as in our model: on the output of each sub-layer
            each.self_attn.dropout, each.dropout.p = 0.0, 0.0
        for parameter in self.layers.parameters():  # otherwise all layers start as copies of one
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.places(self.embedding(tokens) * math.sqrt(self.config.d_model))
        x = F.dropout(x, self.config.dropout, self.training)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return F.linear(self.layers(x, mask=mask, is_causal=True), self.embedding.weight)

    def loss(self, tokens: Tensor, targets: Tensor, *, ignore: int, reduction: str) -> Tensor:
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten(), ignore_index=ignore, reduction=reduction)


def trained(name: str, theirs: bool, folder: Path, console: Console) -> dict[str, Any]:
    """Train one of the two models with the default settings; return its best validation loss and its cost."""
    prepared = prepare(make_run_config("language"))
    settings, ranks = prepared.config.settings, Ranks(0, 1, torch.device("cpu"))
    torch.manual_seed(0)
    model = TorchDecoder(prepared.model.config) if theirs else prepared.model
    console.print(name)
    start = time.process_time()
    with show_progress(settings, console) as report:
        state = Loop(
            Supervised(model, prepared.training, settings, ranks),
            lambda network: {"loss": mean_loss(network, prepared.validation, settings, ranks)},
            settings, folder, ranks, report, save=lambda network, folder: None,
        ).run()  # fmt: skip
    return {
        "name": name, "valid_loss": state.best_metric, "at_step": state.best_step, "steps": state.step,
        "tokens": state.count,
        "processor_seconds": round(time.process_time() - start, 1),
        "parameters": sum(p.numel() for p in model.parameters()),
    }  # fmt: skip


def of_run(run: Path) -> dict[str, Any]:
    """Return the figures of a finished run."""
    about = json.loads((run / "run.json").read_text(encoding="utf-8"))
    usual = json.loads(json.dumps(make_run_config("language").to_json()))
    usual["settings"]["store"], usual["digest"] = about["plan"]["settings"]["store"], about["plan"]["digest"]
    if about["plan"] != usual:
        raise SystemExit(f"{run} was not made by the default command: regard train language")
    found = about["results"]
    assert found["valid_loss"] == min(r["loss"] for r in read_metrics(run / "metrics.jsonl") if r["split"] == "valid")
    return {
        "name": "regard", "valid_loss": found["valid_loss"], "at_step": found["best_step"], "steps": found["steps"],
        "tokens": found["tokens"], "processor_seconds": found["processor_seconds"], "parameters": found["parameters"],
    }  # fmt: skip


def main() -> int:
    """Train both models, print and write the table; return 1 if the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", type=Path, help="finished run of `regard train language` to use instead of training")
    options = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ours").mkdir()
        (Path(folder) / "theirs").mkdir()
        ours = of_run(options.ours) if options.ours else trained("regard", False, Path(folder) / "ours", console)
        theirs = trained("torch's layers", True, Path(folder) / "theirs", console)
    difference = ours["valid_loss"] - theirs["valid_loss"]
    table = Table(title="Validation loss of the default language run", caption=machine(), title_justify="left")
    for column in ("model", "valid loss", "at step", "steps", "parameters", "processor time"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in (ours, theirs):
        counts = [f"{row[key]:,}" for key in ("at_step", "steps", "parameters")]
        table.add_row(row["name"], f"{row['valid_loss']:.4f}", *counts, f"{row['processor_seconds']:.0f} s")
    Console(width=140 if not sys.stdout.isatty() else None).print(table)
    print(f"ours − theirs = {difference:+.4f} (bound: ≤ 0.01, {'met' if difference <= 0.01 else 'missed'})")
    RESULTS.mkdir(exist_ok=True)
    content = {
        "machine": machine(),
        "command": "python bench/language.py",
        "rows": [ours, theirs],
        "difference": difference,
    }
    (RESULTS / "language.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(difference > 0.01)


if __name__ == "__main__":
    sys.exit(main())
