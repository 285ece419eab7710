"""Readers: each converts one way of calling attention into a recorded `Call`."""
