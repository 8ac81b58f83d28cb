"""Device-local programs with one mistake each, and whether the verifier finds it."""
