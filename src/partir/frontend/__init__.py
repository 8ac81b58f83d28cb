"""JAX functions and StableHLO modules in, `Program` out."""
