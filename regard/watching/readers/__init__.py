"""Readers: how each way of calling attention is turned into a recorded call."""
