"""The lab: a local page on which attention is computed on the learner's own words, number by number.

The server is Starlette on uvicorn and answers this machine alone; the page is plain ES modules, without a build
step and without another host. README.md beside this file says how a view is added. Names are loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
