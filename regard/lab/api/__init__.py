"""Endpoints of the API, one module per view or part of a view; each has a list `routes`, collected by server/app.py."""
