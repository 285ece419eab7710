"""Training and generation compared with other libraries: `python bench/models.py`.

One thread, float32, 4 layers, d_model 256, 8 heads. Training is one step on 8 texts of 256 tokens: forward, loss,
backward, fused AdamW. Our decoder has the configuration of each library: the same norm, activation, positions,
vocabulary, dropout and tied output layer. Generation is greedy, 128 tokens after a prompt of 16, with a cache.
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


class TorchModel(nn.Module):
    """Language model of torch's layers with their defaults, post-norm and ReLU."""

    def __init__(self, vocabulary: int, dropout: float) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(vocabulary, D), nn.Parameter(torch.randn(LENGTH, D) * 0.02)
        layer = nn.TransformerEncoderLayer(D, H, 4 * D, dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        for each in self.layers.layers:  # dropout only where ours has it: on the output of each sublayer
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
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def with_scores(model: nn.Module) -> Callable[[], object]:
        return step(model, lambda: F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()))

    def with_loss(**changes: str) -> Callable[[], object]:
        model = ours(vocabulary, LENGTH, dropout, **changes)
        return step(model, lambda: model.loss(tokens, targets))

    hf = gpt2(vocabulary, LENGTH, dropout)
    ways = {
        "ours as GPT-2": with_loss(norm="pre", activation="gelu_tanh"),
        "GPT-2": step(hf, lambda: hf(input_ids=tokens, labels=tokens, use_cache=False).loss),
        "ours as torch": with_loss(),
        "torch": with_scores(TorchModel(vocabulary, dropout)),
    }
    if not dropout:  # x-transformers has dropout in other places
        ways |= {
            "ours as x": with_loss(norm="pre", activation="gelu"),
            "x": with_scores(x_transformers(vocabulary, LENGTH)),
        }
    ms = race(ways, rounds=7)
    at = f"V={vocabulary}" + (f", dropout {dropout}" if dropout else "")
    rows = [
        Row("training step / transformers GPT-2, sdpa", at, ms["ours as GPT-2"], ms["GPT-2"], "ms", bounds[0]),
        Row("training step / nn.TransformerEncoder", at, ms["ours as torch"], ms["torch"], "ms", bounds[1]),
    ]
    if not dropout:
        rows.append(Row("training step / x-transformers, flash", at, ms["ours as x"], ms["x"], "ms", bounds[2]))
    return rows


def generation(vocabulary: int) -> list[Row]:
    from x_transformers import AutoregressiveWrapper

    context = PROMPT + NEW
    prompts = torch.randint(vocabulary, (BATCH, PROMPT))
    prompt = prompts[:1]
    hf, other = gpt2(vocabulary, context).eval(), AutoregressiveWrapper(x_transformers(vocabulary, context)).eval()
    same, similar = from_hf_gpt2(hf), ours(vocabulary, context, norm="pre", activation="gelu")
    modern = Decoder(DecoderConfig.modern(vocabulary, d_model=D, heads=H, layers=LAYERS, context=context))

    def by_gpt2(prompt: Tensor) -> Tensor:
        mask = torch.ones_like(prompt)
        return hf.generate(prompt, attention_mask=mask, max_new_tokens=NEW, do_sample=False, use_cache=True)

    def by_x() -> Tensor:
        return other.generate(prompt, NEW, temperature=0.0, cache_kv=True)

    if by_gpt2(prompt)[0, PROMPT:].tolist() != generate(same, prompt, new_tokens=NEW)[0].tolist():
        raise SystemExit("our decoder and GPT-2 have the same weights but generated different tokens; not compared")
    ms = race(
        {
            "ours as GPT-2": lambda: generate(same, prompt, new_tokens=NEW),
            "GPT-2": lambda: by_gpt2(prompt),
            "ours, 8 texts": lambda: generate(same, prompts, new_tokens=NEW),
            "GPT-2, 8 texts": lambda: by_gpt2(prompts),
            "ours as x": lambda: generate(similar, prompt, new_tokens=NEW),
            "x": by_x,
            "modern": lambda: generate(modern, prompt, new_tokens=NEW),
        },
        rounds=7,
    )
    at = f"V={vocabulary}"
    return [
        Row(f"generating {NEW} tokens / transformers GPT-2", at, ms["ours as GPT-2"], ms["GPT-2"], "ms", 1 / 3),
        Row("the same for 8 texts / transformers GPT-2", at, ms["ours, 8 texts"], ms["GPT-2, 8 texts"], "ms"),
        Row(f"generating {NEW} tokens / x-transformers", at, ms["ours as x"], ms["x"], "ms", 1 / 3),
        Row("the same, rotary, RMSNorm, SwiGLU / GPT-2", at, ms["modern"], ms["GPT-2"], "ms"),
    ]


def memory() -> list[Row]:
    """Compare the peak memory of generation, in a separate process, with the size of keys and values."""
    done = subprocess.run([sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True)
    peak, cache = map(float, done.stdout.split())
    return [Row(f"memory while generating {LONG} tokens / size of the cache", "V=8192", peak, cache, "MB", 1.05)]


def memory_of() -> None:
    model = ours(8192, PROMPT + LONG)
    prompt = torch.randint(8192, (1, PROMPT))
    generate(model, prompt, new_tokens=NEW)  # loading and first calls are not measured
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
            lambda: generation(8192),
            memory,
        ]
        sizes = f"float32, {LAYERS} layers, {D} wide, {H} heads, {BATCH} × {LENGTH} tokens"
        title = f"Models compared with other libraries ({sizes})"
        report("models", title, steps(todo))
