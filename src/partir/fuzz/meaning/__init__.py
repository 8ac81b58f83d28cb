"""What programs compute: interpreted op by op, of one device or of all in lockstep."""
