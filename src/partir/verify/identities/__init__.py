"""Which classes are equal although they are computed otherwise."""
