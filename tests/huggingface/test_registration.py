"""Errors of `regard.huggingface.register`."""

import sys

import pytest

import regard
from regard.huggingface import registration


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "installed", lambda package: False)
    with pytest.raises(ImportError, match=r'^regard.huggingface needs the package transformers: pip install "regard'):
        regard.huggingface.register()


def test_a_version_without_the_interface_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(transformers, "__version__", "4.40.0")
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", None)
    with pytest.raises(ImportError, match=r"needs transformers 4\.53 or newer, found 4\.40\.0: pip install -U"):
        regard.huggingface.register()
