"""The fixture `regard_check` in the tests of another project."""

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
x = torch.randn(2, 5, 16)
real = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])

def test_correct(regard_check):
    seen = regard_check(layer, x, src_key_padding_mask=real == 0, padding=real)
    assert len(seen.calls) == 1
    assert layer.training

def test_keywords(regard_check):
    regard_check(layer, src=x)

def test_padding_forgotten(regard_check):
    regard_check(layer, {"src": x}, padding=real)

def test_causal_mask_forgotten(regard_check):
    regard_check(layer, (x,), causal=True)
"""


def test_fixture_fails_with_the_findings(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "regard.pytest_plugin", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*regard: 1 finding:", "*attends to padding: self_attn*"])
    result.stdout.fnmatch_lines(["*regard: 1 finding:", "*sees the future: self_attn*"])


def test_entry_point_names_a_module_that_does_not_import_torch() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    name = project["project"]["entry-points"]["pytest11"]["regard"]
    assert import_module(name).regard_check
    code = f"import sys, {name}; sys.exit('torch' in sys.modules or 'regard.watching' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
