"""What importing regard loads, and when."""

import subprocess
import sys

import pytest

import regard

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


def test_every_public_name_can_be_had() -> None:
    for package in (regard, regard.attention, regard.pictures):
        for name in dir(package):
            assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="attention_span"):
        _ = regard.attention_span
