"""Ways to search, each a function in one table, and what they are given."""

from partir.search.methods import (
    baselines as baselines,
    integer as integer,
    tree as tree,
)
from partir.search.methods.best import Best as Best
from partir.search.methods.budget import Budget as Budget
from partir.search.methods.registry import (
    METHODS as METHODS,
    method_named as method_named,
    search_method as search_method,
)
