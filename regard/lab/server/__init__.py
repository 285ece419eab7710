"""The lab's server: application, request checks, job queue, pages."""
