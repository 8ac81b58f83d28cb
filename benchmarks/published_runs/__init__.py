"""Published training runs: measured step times beside predicted ones."""
