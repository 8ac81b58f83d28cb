"""The tile-mapping registry: every op's factors and local form.

Importing this package registers all families.
"""

from partir.rules import (
    contraction as contraction,
    elementwise as elementwise,
    indexing as indexing,
    lookup as lookup,
    reduction as reduction,
    shape as shape,
)
