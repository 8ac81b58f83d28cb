"""All patterns. Importing a topic adds its patterns."""

from __future__ import annotations

from benchmarks.patterns import (
    attention,
    compositions,
    grids,
    images,
    losses,
    routing,
    sequences,
)
from benchmarks.patterns.pattern import Registry, pattern

TOPICS = (attention, compositions, grids, images, losses, routing, sequences)
PATTERNS: Registry = pattern
