"""Files written whole: what is left when the writing is stopped."""

import os
from pathlib import Path

import pytest

from regard.files import write_whole


@pytest.mark.parametrize("renamed", [False, True])
def test_ctrl_c_is_ctrl_c_whenever_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renamed: bool) -> None:
    file = tmp_path / "x.json"
    file.write_text("old")
    replace = os.replace

    def stopped(*paths: str) -> None:
        if renamed:
            replace(*paths)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_whole(file, "new")
    assert file.read_text() == ("new" if renamed else "old")
    assert os.listdir(tmp_path) == ["x.json"]
