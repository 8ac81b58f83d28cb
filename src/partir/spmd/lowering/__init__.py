"""From a partition to local ops and the collectives between them."""
