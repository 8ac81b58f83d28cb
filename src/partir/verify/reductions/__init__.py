"""What reductions over local dimensions and over mesh axes make."""
