"""Diagrams of the mechanism: the flow of the computation, and query and keys as arrows."""
