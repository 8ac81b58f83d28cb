"""What runs a program op by op on views, and what many ops ask of it."""
