"""Time and memory of an SPMD program on a device, without running it."""
