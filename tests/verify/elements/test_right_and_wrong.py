"""Cases of other tests, by their elements alone."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.verify import test_joined_in_turn, test_wrong_lookups, test_wrong_places
from tests.verify.elements.test_written_out import is_equal
from tests.verify.identities import test_unmerging
from tests.verify.lookups import test_patches

MODULES = (
    test_joined_in_turn,
    test_patches,
    test_unmerging,
    test_wrong_lookups,
    test_wrong_places,
)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_right_ones_are_equal_and_wrong_ones_are_not(module: ModuleType) -> None:
    assert [name for name in module.RIGHT if not is_equal(module.RIGHT[name])] == []
    assert [name for name in module.WRONG if is_equal(module.WRONG[name])] == []
