"""Time of collectives: where mesh axes lie on a device's links."""
