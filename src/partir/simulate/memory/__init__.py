"""Peak memory: live ranges of values, buffers that are used again."""
