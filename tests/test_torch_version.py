"""The range of torch versions: one error outside of it, the same range in pyproject.toml and in the workflow."""

import re
import tomllib
from pathlib import Path

import pytest
import typer

from regard.cli.errors import report_user_errors
from regard.torch_version import NEWEST, OLDEST, TorchVersionError, check_torch_version

ROOT = Path(__file__).parents[1]
(A, B), (C, D) = OLDEST, NEWEST


@pytest.mark.parametrize("version", [f"{A}.{B}.0", f"{A}.{B}.0+cu124", f"{C}.{D}.3", f"{C}.{D}.0a0+git1234"])
def test_versions_inside_the_range(version: str) -> None:
    check_torch_version(version)


@pytest.mark.parametrize("version", ["1.13.1", f"{A}.{B - 1}.1", f"{C}.{D + 1}.0.dev20270101+cpu", f"{C + 1}.0.0"])
def test_other_versions_are_one_line_of_the_command_line(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ImportError, match=f"supports torch {A}.{B} to {C}.{D}, but torch {re.escape(version)}"):
        check_torch_version(version)
    with pytest.raises(typer.Exit) as stopped, report_user_errors("watch"):
        check_torch_version(version)
    assert stopped.value.exit_code == 2
    error = capsys.readouterr().err
    assert error.startswith("regard watch: regard supports torch")
    assert error.endswith(f"pip install 'torch>={A}.{B},<{C}.{D + 1}'\n")
    assert error.count("\n") == 1


def test_attention_does_not_load_with_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    import torch

    from regard.attention.kernels import private_torch_operators

    monkeypatch.setattr(torch, "__version__", f"{A}.{B - 1}.1")
    source = importlib.util.find_spec(private_torch_operators.__name__)
    assert source is not None
    assert source.loader is not None
    with pytest.raises(TorchVersionError):
        source.loader.exec_module(importlib.util.module_from_spec(source))


def test_the_range_of_the_package_and_the_workflow() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"torch>={A}.{B},<{C}.{D + 1}" in project["dependencies"]
    workflow = (ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8")
    assert f'torch: ["torch=={A}.{B}.*", "torch=={C}.{D}.*"]' in workflow
