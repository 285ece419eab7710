"""The lab: a local web page that computes attention on the learner's own words, number by number.

`server/` is a Starlette application run by uvicorn, reachable from this machine only. `api/` contains the endpoints of
each view, `models/` the trained models and the search process behind them. `static/` is the page: plain ES modules
without a build step; it loads nothing from other hosts. `server/request_guard.py` checks each request; a function in
`api/` then returns JSON computed by the other packages, and the view draws that JSON.

README.md in this folder explains how to add a view. Names are imported when they are first used.
"""

import lazy_loader

from regard.extras import require

require("lab", "the lab", "starlette", "uvicorn")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
