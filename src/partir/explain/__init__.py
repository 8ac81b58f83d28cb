"""Why a value is tiled as it is, why a collective is there, and what would help."""
