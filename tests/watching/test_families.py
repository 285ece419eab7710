"""Some families of `transformers` on both implementations, checked as bench/coverage.py checks all of them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    """Return bench/coverage.py as a module."""
    path = list(sys.path)
    spec = importlib.util.spec_from_file_location("bench_coverage", Path(__file__).parents[2] / "bench" / "coverage.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path[:] = path
    transformers.logging.set_verbosity_error()
    return module


BOTH = ["bert", "gpt2", "llama", "t5", "bart", "falcon", "mixtral", "diffllama", "vit"]
EAGER = [
    "gpt_oss",
    "gemma2",
    "bloom",
    "mpt",
    "xlnet",
    "deberta-v2",
    "big_bird",
    "nystromformer",
    "cpmant",
]  # families without "sdpa"
CASES = [*((family, "sdpa") for family in BOTH), *((family, "eager") for family in (*BOTH, *EAGER))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("family", "implementation"), CASES)
def test_every_call_of_a_family_is_exact(coverage: ModuleType, family: str, implementation: str) -> None:
    result = coverage.transformers_case(family, implementation)
    assert result.status == "exact", result
    assert result.calls >= 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", ["longformer", "pegasus_x", "minimax", "yoso"])
def test_what_is_not_softmax_attention_over_positions_is_reported(coverage: ModuleType, family: str) -> None:
    result = coverage.transformers_case(family, "eager")
    assert result.status == "reported", result
