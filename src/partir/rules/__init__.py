"""The tile-mapping registry: every op's factors and local form.

Importing this package registers all families.
"""

from partir.rules import (
    calls as calls,
    contraction as contraction,
    convolution as convolution,
    dynamic as dynamic,
    elementwise as elementwise,
    indexing as indexing,
    linalg as linalg,
    lookup as lookup,
    normalization as normalization,
    ragged as ragged,
    random as random,
    reduction as reduction,
    shape as shape,
    window as window,
)
