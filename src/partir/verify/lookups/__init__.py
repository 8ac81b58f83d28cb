"""Rows that are read, replaced or added to at places that indices say."""
