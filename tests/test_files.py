"""Files written whole: what is left when the writing is stopped."""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from regard.files import write_atomic


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
        write_atomic(file, "new")
    assert file.read_text() == ("new" if renamed else "old")
    assert os.listdir(tmp_path) == ["x.json"]


# Interrupted where the stream would be closed, it is closed by whoever clears up after it.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_ctrl_c_at_any_line_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    for wanted in range(1, 1000):
        left = wanted

        def interrupt(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal left
            if Path(frame.f_code.co_filename).name not in ("files.py", "tempfile.py"):
                return None
            left -= event == "line"
            if left == 0:
                left = -1
                raise KeyboardInterrupt
            return interrupt

        before = sys.gettrace()
        sys.settrace(interrupt)
        try:
            write_atomic(file, "whole")
        except KeyboardInterrupt:
            sys.settrace(before)
            assert set(os.listdir(tmp_path)) <= {file.name}
        else:
            break
        finally:
            sys.settrace(before)
    assert wanted > 5
    assert file.read_text() == "whole"
