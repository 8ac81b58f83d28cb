"""What several devices do: collectives, shard_maps, and loops around them."""
