"""The program in docs/research.md runs, and its network learns."""

import re
from pathlib import Path
from typing import Any

import torch

DOCUMENT = Path(__file__).parents[1] / "docs" / "research.md"


def test_the_program_of_the_document_trains_a_network(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(program.replace("tempfile.mkdtemp()", repr(str(tmp_path))), names)
    assert names["after"] < names["before"] - 0.05
    assert names["game"].status == "DONE"
