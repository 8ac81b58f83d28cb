"""What a search found, as decisions for the whole program with names and reasons."""
