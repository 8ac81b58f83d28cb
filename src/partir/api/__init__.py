"""The public face: `jit`, `partition`, `trace` and what they return."""
