"""Automatic partitioning: repeated structure, named dimensions, search."""
