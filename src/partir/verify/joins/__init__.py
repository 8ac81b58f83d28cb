"""Rows of several values put together, tiles of which the last are short among them."""
