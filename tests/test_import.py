"""What importing regard loads, and what its packages export."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import regard

PACKAGES = [
    "attention", "claims", "connectx", "costs", "huggingface", "lab", "learn", "models", "pictures", "training",
    "watching",
]  # fmt: skip
HEAVY = ("torch", "numpy", "jaxtyping", "einops", "matplotlib")


def loaded_by(code: str) -> set[str]:
    """Which of the heavy packages a fresh Python has loaded after running the code."""
    report = f"{code}\nimport sys; print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(result.stderr.split())


def test_import_regard_loads_nothing_heavy() -> None:
    assert loaded_by("import regard; regard.__version__; dir(regard)") == set()


@pytest.mark.parametrize("arguments", ["['--help']", "['trace', '--help']", "['--version']"])
def test_help_loads_nothing_heavy(arguments: str) -> None:
    assert loaded_by(f"from regard.cli import main; main({arguments})") == set()


def test_a_trace_does_without_torch() -> None:
    code = "import regard; t = regard.trace([[1.0]], [[1.0]], [[1.0]]); t.to_json()"
    assert "torch" not in loaded_by(code)
    assert "torch" not in loaded_by("from regard.cli import main; main(['trace', 'The cat'])")


def exported(package: str) -> list[str]:
    """Return the names that a package's stub exports."""
    stub = Path(regard.__file__).parent.joinpath(*package.split(".")[1:], "__init__.pyi")
    nodes = ast.parse(stub.read_text(encoding="utf-8")).body
    return [alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names]


@pytest.mark.parametrize("package", ["regard", *(f"regard.{name}" for name in PACKAGES)])
def test_every_exported_name_is_documented_with_an_example(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(exported(package)) == sorted(module.__all__)
    for name in exported(package):
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert ">>>" in (value.__doc__ or ""), f"{package}.{name} has no example in its docstring"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="attention_span"):
        _ = regard.attention_span
