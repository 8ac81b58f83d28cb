"""The program as plain, immutable, picklable data."""
