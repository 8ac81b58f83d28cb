"""What is said of a difference: which op it comes from, and its smallest module."""
