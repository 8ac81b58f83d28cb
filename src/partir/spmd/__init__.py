"""The device-local program: local ops, collectives, their rewrites and StableHLO."""
