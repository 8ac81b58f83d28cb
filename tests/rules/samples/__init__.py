"""Samples of every op kind that has a rule; importing this registers them."""

from tests.rules.samples import (
    contraction as contraction,
    elementwise as elementwise,
    indexing as indexing,
    reduction as reduction,
    shape as shape,
)
