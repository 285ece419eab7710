"""transformers on attn_implementation="regard" compared with "eager", for families that have no other on a CPU.

`python bench/huggingface.py` measures models and attention functions with the attention shapes of Gemma 2 2B (8 heads
of 256 over 4, softcap) and gpt-oss 20B (64 heads of 64 over 8, sinks, window of 128 in every second layer), 2,048
tokens, float32, one thread. The models are 2 layers of a smaller width, because at full width their matrices take most
of the time: `--hidden 2304` measures Gemma 2 at its own. It also compares logits and weights with eager.
"""

import argparse
import importlib
from collections.abc import Callable
from typing import Any

import torch
from side_by_side import Row, close_race, one_thread, report, steps
from torch import Tensor, nn

import regard
from regard.huggingface.attention_function import attention
from regard.huggingface.mask_creation import create_mask

LENGTH = 2048


def config(family: str, hidden: int) -> Any:
    import transformers

    common: dict[str, Any] = {"vocab_size": 512, "hidden_size": hidden, "num_hidden_layers": 2}
    if family == "Gemma 2":
        return transformers.Gemma2Config(
            **common, intermediate_size=4 * hidden, num_attention_heads=8, num_key_value_heads=4, head_dim=256,
            query_pre_attn_scalar=256, sliding_window=4096,
        )  # fmt: skip
    return transformers.GptOssConfig(
        **common, intermediate_size=hidden, num_attention_heads=64, num_key_value_heads=8, head_dim=64,
        sliding_window=128, num_local_experts=4, num_experts_per_tok=2,
    )  # fmt: skip


def model(family: str, implementation: str, hidden: int) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    kind = transformers.Gemma2ForCausalLM if family == "Gemma 2" else transformers.GptOssForCausalLM
    return kind._from_config(config(family, hidden), attn_implementation=implementation).eval()


def whole_model(family: str, hidden: int, rounds: int) -> list[Row]:
    models = {name: model(family, name, hidden) for name in ("regard", "eager")}
    ids = torch.randint(0, 512, (1, LENGTH))

    def forward(name: str) -> Tensor:
        with torch.no_grad():
            return models[name](ids, use_cache=False).logits

    def with_backward(name: str) -> None:
        models[name].zero_grad()
        models[name](ids, use_cache=False).logits.sum().backward()

    difference = float((forward("regard") - forward("eager")).abs().max())
    at = f"{family}, {hidden} wide"
    forwards = close_race({name: lambda name=name: forward(name) for name in models}, rounds=rounds)
    both = close_race({name: lambda name=name: with_backward(name) for name in models}, rounds=rounds)
    return [
        Row("whole model, forward", at, forwards["regard"], forwards["eager"], "ms", 0.55),
        Row("whole model, forward and backward", at, both["regard"], both["eager"], "ms", 0.55),
        Row("largest difference of the logits / 1e-5", at, difference, 1e-5, "", 1.0),
    ]


def one_layer(family: str, window: int | None, rounds: int) -> list[Row]:
    """Measure the attention functions alone, from q, k and v to the output of the heads."""
    from transformers import masking_utils

    name = "gemma2" if family == "Gemma 2" else "gpt_oss"
    eager = importlib.import_module(f"transformers.models.{name}.modeling_{name}").eager_attention_forward
    shape = config(family, 64)
    heads, groups, width = shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim
    module = nn.Module().eval()
    module.num_key_value_groups, module.head_dim = heads // groups, width
    module.sinks = nn.Parameter(torch.zeros(heads))
    q, k, v = (torch.randn(1, LENGTH, n, width).transpose(1, 2).requires_grad_() for n in (heads, groups, groups))
    function = masking_utils.causal_mask_function
    if window is not None:
        function = masking_utils.sliding_window_causal_mask_function(window)
    options: dict[str, Any] = {"scaling": width**-0.5}
    extra: dict[str, Any] = {"s_aux": module.sinks}
    if family == "Gemma 2":
        options, extra = options | {"softcap": 50.0}, {}
    our_mask = create_mask(1, LENGTH, LENGTH, mask_function=function)
    mask = masking_utils.eager_mask(1, LENGTH, LENGTH, mask_function=function)
    ways: dict[str, Callable[[], Tensor]] = {
        "regard": lambda: attention(module, q, k, v, our_mask, **options, **extra)[0],
        "eager": lambda: eager(module, q, k, v, mask, **options)[0],
    }
    grad = torch.randn(1, LENGTH, heads, width)

    def forward(way: Callable[[], Tensor]) -> None:
        with torch.no_grad():
            way()

    at = f"{family}, {'full' if window is None else f'window of {window}'}"
    forwards = close_race({name: lambda way=way: forward(way) for name, way in ways.items()}, rounds=rounds)
    both = close_race(
        {name: lambda way=way: torch.autograd.grad(way(), (q, k, v), grad) for name, way in ways.items()}, rounds=rounds
    )
    return [
        Row("attention alone, forward", at, forwards["regard"], forwards["eager"], "ms", 0.35),
        Row("attention alone, forward and backward", at, both["regard"], both["eager"], "ms", 0.35),
    ]


def lazy_weights() -> list[Row]:
    """Compare lazy attention weights with those of eager: GPT-2 with random weights."""
    import transformers

    torch.manual_seed(0)
    shape = transformers.GPT2Config(n_layer=4, bos_token_id=0, eos_token_id=0)
    eager = transformers.GPT2Model._from_config(shape, attn_implementation="eager").eval()
    ids = torch.randint(0, 50257, (1, 256))
    with torch.no_grad():
        expected = eager(ids, output_attentions=True).attentions
        eager.set_attn_implementation("regard")
        weights = eager(ids, output_attentions=True).attentions
        difference = max(float((a - torch.as_tensor(b)).abs().max()) for a, b in zip(expected, weights, strict=True))
    return [Row("largest difference of .attentions / 1e-6", "GPT-2, 256 tokens", difference, 1e-6, "", 1.0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=512, help="width of the models")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each way; the best counts")
    parts: dict[str, Callable[[int, int], list[Row]]] = {
        "gemma2-model": lambda hidden, rounds: whole_model("Gemma 2", hidden, rounds),
        "gemma2-layer": lambda _, rounds: one_layer("Gemma 2", None, rounds),
        "gpt-oss-model": lambda hidden, rounds: whole_model("gpt-oss", hidden, rounds),
        "gpt-oss-layer": lambda _, rounds: one_layer("gpt-oss", None, rounds),
        "gpt-oss-window": lambda _, rounds: one_layer("gpt-oss", 128, rounds),
        "weights": lambda *_: lazy_weights(),
    }
    parser.add_argument("--only", nargs="+", choices=parts, help="measure these parts and keep the results of others")
    arguments = parser.parse_args()
    one_thread()
    regard.huggingface.register()
    chosen = [parts[name] for name in arguments.only or parts]
    rows = steps([lambda part=part: part(arguments.hidden, arguments.rounds) for part in chosen])
    title = f'attn_implementation="regard" / "eager", {LENGTH} tokens'
    report("huggingface", title, rows, keep_others=arguments.only is not None)


if __name__ == "__main__":
    main()
