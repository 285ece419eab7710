from .server.app import Settings as Settings
from .server.app import build as build
from .server.saved_page import saved_page as saved_page
from .server.saved_page import trace_page as trace_page
from .server.serve import Lab as Lab
