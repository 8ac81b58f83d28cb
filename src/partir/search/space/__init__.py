"""What may be decided: named dimensions, and the moves over them."""
