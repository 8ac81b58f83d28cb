"""Several searches at once, in processes of their own."""
