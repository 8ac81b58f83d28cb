"""Samples of every op kind that has a rule; importing this registers them."""

from tests.rules.samples import (
    calls as calls,
    contraction as contraction,
    convolution as convolution,
    dynamic as dynamic,
    elementwise as elementwise,
    indexing as indexing,
    linalg as linalg,
    ragged as ragged,
    reduction as reduction,
    shape as shape,
    windows as windows,
)
