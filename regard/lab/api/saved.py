"""The frame of a page that is saved as one file; the page itself puts in what it has."""

from typing import Any

from starlette.responses import Response

from regard.lab.server.page import LANGUAGES, views
from regard.lab.server.request_fields import Asked, get, one_of
from regard.lab.server.saved_page import frame


def empty(given: Asked) -> Any:
    """The file without its numbers."""
    view, language = one_of(given, "view", "trace", tuple(views())), one_of(given, "language", "en", LANGUAGES)
    return Response(frame(view, language=language), media_type="text/html")


routes = [get("/api/saved", empty)]
