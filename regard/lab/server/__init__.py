"""HTTP server of the lab: application, routes, request checks, job queue, live page and saved page."""
