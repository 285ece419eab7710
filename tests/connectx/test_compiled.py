"""Cached machine code is reused, and compiled again when a source file of its package changes."""

import subprocess
import sys
from pathlib import Path

INNER = """
import numba

@numba.njit
def inner(number):
    return number + {added}
"""

OUTER = """
from inner import inner
from regard.numba_functions import compiled

@compiled
def outer(number):
    return inner(number)
"""

RUN = "from outer import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"


def test_a_change_in_another_file_of_the_package_invalidates_the_cache(tmp_path: Path) -> None:
    def run() -> str:
        done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    (tmp_path / "outer.py").write_text(OUTER)
    (tmp_path / "inner.py").write_text(INNER.format(added=1))
    assert run() == "2 0"  # the number, and how often the cache had it
    assert run() == "2 1"
    (tmp_path / "inner.py").write_text(INNER.format(added=10))
    assert run() == "11 0"
