"""Collectives replaced by fewer or cheaper ones; `table.py` lists all rewrites."""
