"""What each op computes, as equations over labels: the verifier's own statement."""

from partir.verify.equations import (
    elementwise as elementwise,
    indexing as indexing,
    products as products,
    structure as structure,
    windows as windows,
)
from partir.verify.equations.registry import equation_of as equation_of
