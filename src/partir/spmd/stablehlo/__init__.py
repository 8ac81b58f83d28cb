"""Programs as StableHLO text: of one device, and of the sequential meaning."""
