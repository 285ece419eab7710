"""The learner's progress file, shared with `regard learn`.

The file is read again for every request and written under a lock (`regard.learn.Progress`), so the page and the
terminal may be used at the same time. Routes of the course pass its path to their functions, for example
`get("/api/practice", overview, learner_file)`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

if TYPE_CHECKING:
    from regard.learn import Progress


def learner_file(request: Request) -> Path:
    """Return the path of the learner's progress file."""
    from regard.learn.progress import data_folder

    return (request.app.state.settings.data or data_folder()) / "learn.json"


def load_progress(file: Path) -> "Progress":
    """Return the learner's progress."""
    from regard.learn import Progress

    return Progress.load(file)


def translations(words: Mapping[Any, str]) -> dict[str, str]:
    """Return the texts of both languages as JSON, so that the page can change the language without a request."""
    return {str(language): text for language, text in words.items()}
