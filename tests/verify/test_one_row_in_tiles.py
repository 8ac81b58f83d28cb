"""One row in tiles of several devices: only the first one has it."""

from __future__ import annotations

from tests.verify.modules import Case, Tiling, function, is_proved


def doubled(given: Tiling, made: Tiling, size: int, tile: int) -> Case:
    """Devices double what they have."""

    def program(rows: int) -> str:
        type_ = f"{rows}x4xf32"
        line = f"%r = stablehlo.add %x, %x : tensor<{type_}>"
        return function({"x": type_}, type_, line)

    return Case(program(size), program(tile), [given], made)


def test_behind_the_only_row_is_what_nobody_knows() -> None:
    assert not is_proved(doubled((("B",),), (), 1, 1))


def test_tiles_of_one_row_that_all_devices_have() -> None:
    assert is_proved(doubled((("B",),), (("B",),), 1, 1))  # nobody asks for more
    assert is_proved(doubled((("B",),), (("B",),), 2, 1))
    assert is_proved(doubled((), (), 1, 1))
