"""partir: partition JAX programs over device meshes with a schedule of tactics."""

__all__: list[str] = []
