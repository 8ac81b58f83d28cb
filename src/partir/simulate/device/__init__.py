"""What is known of devices: specs, where they come from."""
