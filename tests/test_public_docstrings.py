"""Every public name has a docstring: a summary, every parameter or field, and an example that runs."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import regard

ROOT = Path(regard.__file__).parent
SHORT_ADDRESSES = ("masks", "nn", "compat", "interventions")


def _public_objects() -> Iterator[tuple[str, Any]]:
    for file in [ROOT / "__init__.pyi", *sorted(ROOT.glob("*/__init__.pyi"))]:
        package = "regard" if file.parent == ROOT else f"regard.{file.parent.name}"
        module = importlib.import_module(package)
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ImportFrom):
                yield from ((f"{package}.{name.name}", getattr(module, name.name)) for name in statement.names)
    for short in SHORT_ADDRESSES:
        module = importlib.import_module(f"regard.{short}")
        yield from ((f"regard.{short}.{name}", getattr(module, name)) for name in module.__all__)


PUBLIC = {
    name: thing
    for name, thing in _public_objects()
    if inspect.isclass(thing) or inspect.isroutine(thing) or hasattr(thing, "__wrapped__")
}


def _parameters(thing: Any) -> list[str]:
    """Names of what a caller passes; those of a dataclass that its public base class documents are left out."""
    if inspect.isclass(thing) and issubclass(thing, Exception) and "__init__" not in vars(thing):
        return []  # an exception with a message
    if is_dataclass(thing):
        bases = [base for base in thing.__mro__[1:] if base in PUBLIC.values() and is_dataclass(base)]
        inherited = {field.name for base in bases for field in fields(base)}
        names = [field.name for field in fields(thing) if field.name not in inherited]
    else:
        names = [name for name in inspect.signature(thing).parameters if name not in ("self", "args", "kwargs")]
    return [name for name in names if not name.startswith("_")]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_docstring_is_complete(name: str) -> None:
    thing = PUBLIC[name]
    blocks = re.split(r"\n{2,}", inspect.getdoc(thing) or "")
    text = "\n\n".join(block for block in blocks if not block.startswith(">>> ")) + "\n"
    assert re.match(r"\S[^\n]*(\n[^\n]+)?[.:]\s", text), f"{name} has no summary that ends with a full stop"
    assert any(block.startswith(">>> ") for block in blocks), f"{name} has no example"
    missing = [parameter for parameter in _parameters(thing) if not re.search(rf"\b{parameter}\b", text)]
    assert not missing, f"the docstring of {name} does not explain {', '.join(missing)}"


def test_most_public_names_are_checked() -> None:
    assert {"regard.attend", "regard.watch", "regard.masks.causal", "regard.nn.Alibi"} <= PUBLIC.keys()
    assert len(PUBLIC) > 200
