"""Benchmarks: run them as modules, e.g. ``python -m benchmarks.collectives``."""
