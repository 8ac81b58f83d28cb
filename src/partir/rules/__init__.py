"""The tile-mapping registry: every op's factors and local form.

Importing this package registers all families.
"""

from partir.rules import (
    calls as calls,
    constraint as constraint,
    contraction as contraction,
    convolution as convolution,
    dynamic as dynamic,
    elementwise as elementwise,
    fused as fused,
    gather as gather,
    indexing as indexing,
    largest as largest,
    linalg as linalg,
    normalization as normalization,
    ragged as ragged,
    random as random,
    reduction as reduction,
    rotation as rotation,
    scatter as scatter,
    shape as shape,
    window as window,
)
