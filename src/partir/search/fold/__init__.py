"""Folding: repeated layers and elementwise groups become one op each, with a count."""
