"""Endpoint of the HTML template for a saved view; the page fills in its state and the server's responses."""

from starlette.responses import Response

from regard.lab.server.live_page import LANGUAGES, view_names
from regard.lab.server.request_fields import Fields, choice
from regard.lab.server.routes import get
from regard.lab.server.saved_page import saved_page_template


def template(fields: Fields) -> Response:
    """Return the HTML of a saved view, without the view's state and the server's responses."""
    view = choice(fields, "view", "trace", tuple(view_names()))
    language = choice(fields, "language", "en", LANGUAGES)
    return Response(saved_page_template(view, language=language), media_type="text/html")


routes = [get("/api/saved", template)]
