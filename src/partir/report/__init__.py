"""What a partition looks like to people."""
