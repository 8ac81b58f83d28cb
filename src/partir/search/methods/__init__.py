"""Ways to search, each in the same interface, and the registry of them."""
