from .app import Settings as Settings
from .app import build as build
from .saved import saved_page as saved_page
from .saved import trace_page as trace_page
from .serving import Lab as Lab
from .serving import serve as serve
