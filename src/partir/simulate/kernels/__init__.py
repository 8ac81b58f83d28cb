"""What a back end launches: ops fused into kernels, their order and work."""
