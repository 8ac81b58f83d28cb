"""Running the device-local program in JAX, on any back end."""
