"""What model code does to tiled dimensions, one small function for each."""
