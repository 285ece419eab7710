"""Models beside their peers: `python bench/models.py`. One thread, float32, 4 layers, 256 wide, 8 heads.

Training is one step on 8 texts of 256 tokens: forward, loss, backward, AdamW (fused, for everyone). Each peer is
measured beside our decoder in the peer's own configuration: the same norm, activation, places, vocabulary, dropout,
tied output layer. Writing is greedy, one text, 128 tokens after 16, everyone with a cache.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from side_by_side import Row, memory_mb, one_thread, race, report, steps
from torch import Tensor, nn

from regard.models import Decoder, DecoderConfig, from_hf_gpt2, generate

LAYERS, D, H, LENGTH, BATCH = 4, 256, 8, 256, 8
PROMPT, NEW, LONG = 16, 128, 4096


class Torchs(nn.Module):
    """torch's own layers as a language model: post-norm and ReLU, its defaults."""

    def __init__(self, vocabulary: int, dropout: float) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(vocabulary, D), nn.Parameter(torch.randn(LENGTH, D) * 0.02)
        layer = nn.TransformerEncoderLayer(D, H, 4 * D, dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        for each in self.layers.layers:  # dropout where ours has it: on what each part adds
            each.self_attn.dropout, each.dropout.p = 0.0, 0.0
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(D, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("future", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.embedding(tokens) + self.places)
        return self.head(self.layers(x, mask=self.future, is_causal=True))


def gpt2(vocabulary: int, context: int, dropout: float = 0.0) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    config = GPT2Config(
        vocab_size=vocabulary, n_positions=context, n_embd=D, n_layer=LAYERS, n_head=H,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=None, pad_token_id=0, attn_implementation="sdpa",
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def x_transformers(vocabulary: int, context: int) -> nn.Module:
    from x_transformers import Decoder as Layers
    from x_transformers import TransformerWrapper

    layers = Layers(dim=D, depth=LAYERS, heads=H, attn_dim_head=D // H, attn_flash=True)
    return TransformerWrapper(num_tokens=vocabulary, max_seq_len=context, attn_layers=layers, tie_embedding=True)


def ours(vocabulary: int, context: int, dropout: float = 0.0, **changes: str) -> Decoder:
    sizes = {"d_model": D, "heads": H, "layers": LAYERS, "context": context, "dropout": dropout}
    return Decoder(DecoderConfig(vocabulary, positions="learned", **sizes, **changes))


def step(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], object]:
    optimiser = torch.optim.AdamW(model.train().parameters(), lr=1e-4, fused=True)

    def run() -> None:
        loss().backward()
        optimiser.step()
        optimiser.zero_grad()

    return run


def training(vocabulary: int, dropout: float, bounds: tuple[float | None, float | None, float | None]) -> list[Row]:
    text = torch.randint(vocabulary, (BATCH, LENGTH + 1))
    given, wanted = text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def scored(model: nn.Module) -> Callable[[], object]:
        return step(model, lambda: F.cross_entropy(model(given).flatten(0, 1), wanted.flatten()))

    def mine(**changes: str) -> Callable[[], object]:
        model = ours(vocabulary, LENGTH, dropout, **changes)
        return step(model, lambda: model.loss(given, wanted))

    hf = gpt2(vocabulary, LENGTH, dropout)
    ways = {
        "ours as GPT-2": mine(norm="pre", activation="gelu_tanh"),
        "GPT-2": step(hf, lambda: hf(input_ids=given, labels=given, use_cache=False).loss),
        "ours as torch": mine(),
        "torch": scored(Torchs(vocabulary, dropout)),
    }
    if not dropout:  # x-transformers drops at other places
        ways |= {"ours as x": mine(norm="pre", activation="gelu"), "x": scored(x_transformers(vocabulary, LENGTH))}
    ms = race(ways, rounds=7)
    at = f"V={vocabulary}" + (f", dropout {dropout}" if dropout else "")
    rows = [
        Row("training step / transformers GPT-2, sdpa", at, ms["ours as GPT-2"], ms["GPT-2"], "ms", bounds[0]),
        Row("training step / nn.TransformerEncoder", at, ms["ours as torch"], ms["torch"], "ms", bounds[1]),
    ]
    if not dropout:
        rows.append(Row("training step / x-transformers, flash", at, ms["ours as x"], ms["x"], "ms", bounds[2]))
    return rows


def writing(vocabulary: int) -> list[Row]:
    from x_transformers import AutoregressiveWrapper

    context = PROMPT + NEW
    prompt = torch.randint(vocabulary, (1, PROMPT))
    hf, other = gpt2(vocabulary, context).eval(), AutoregressiveWrapper(x_transformers(vocabulary, context)).eval()
    same, alike = from_hf_gpt2(hf), ours(vocabulary, context, norm="pre", activation="gelu")
    modern = Decoder(DecoderConfig.modern(vocabulary, d_model=D, heads=H, layers=LAYERS, context=context))

    def theirs() -> Tensor:
        real = torch.ones_like(prompt)
        return hf.generate(prompt, attention_mask=real, max_new_tokens=NEW, do_sample=False, use_cache=True)

    def by_x() -> Tensor:
        return other.generate(prompt, NEW, temperature=0.0, cache_kv=True)

    if theirs()[0, PROMPT:].tolist() != generate(same, prompt, new_tokens=NEW)[0].tolist():
        raise SystemExit("ours and GPT-2 have the same weights and wrote different texts: nothing was compared")
    ms = race(
        {
            "ours as GPT-2": lambda: generate(same, prompt, new_tokens=NEW),
            "GPT-2": theirs,
            "ours as x": lambda: generate(alike, prompt, new_tokens=NEW),
            "x": by_x,
            "modern": lambda: generate(modern, prompt, new_tokens=NEW),
        },
        rounds=7,
    )
    at = f"V={vocabulary}"
    return [
        Row(f"writing {NEW} tokens / transformers GPT-2", at, ms["ours as GPT-2"], ms["GPT-2"], "ms", 1 / 3),
        Row(f"writing {NEW} tokens / x-transformers", at, ms["ours as x"], ms["x"], "ms", 1 / 3),
        Row("the same, rotary, RMSNorm, SwiGLU / GPT-2", at, ms["modern"], ms["GPT-2"], "ms"),
    ]


def memory() -> list[Row]:
    """The peak while writing, in a process of its own, beside the bytes of the keys and values."""
    done = subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True)
    peak, cache = map(float, done.stdout.split())
    return [Row(f"memory while writing {LONG} tokens / the cache's own bytes", "V=8192", peak, cache, "MB", 1.05)]


def memory_of() -> None:
    model = ours(8192, PROMPT + LONG)
    prompt = torch.randint(8192, (1, PROMPT))
    generate(model, prompt, new_tokens=NEW)  # what loading and first calls take is not counted
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak counts from here
    before = memory_mb("VmRSS")
    generate(model, prompt, new_tokens=LONG)
    print(memory_mb("VmHWM") - before, model.new_cache(1, PROMPT + LONG).nbytes / 2**20)


if __name__ == "__main__":
    one_thread()
    torch.manual_seed(0)
    if sys.argv[1:2] == ["--memory"]:
        memory_of()
    else:
        todo: list[Callable[[], list[Row]]] = [
            lambda: training(8192, 0.0, (1 / 1.20, 1 / 1.08, 1 / 1.10)),
            lambda: training(8192, 0.1, (None, None, None)),
            lambda: training(1024, 0.0, (None, None, None)),
            lambda: writing(8192),
            memory,
        ]
        title = f"Models beside their peers (float32, {LAYERS} layers, {D} wide, {H} heads, {BATCH} × {LENGTH} tokens)"
        report("models", title, steps(todo))
