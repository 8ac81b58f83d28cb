"""Numbers around values that have numbers in place of rows already."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir
from tests.verify.test_right_and_wrong import shape

pytestmark = pytest.mark.quick


def stepped(w: jax.Array, x: jax.Array) -> jax.Array:
    """Windows of images of one pixel: around it is nothing, along both dimensions."""
    kinds = ("NHWC", "HWIO", "NHWC")

    def loss(w: jax.Array) -> jax.Array:
        made = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=kinds)
        return jnp.sum(jnp.sin(made))

    return w - jax.grad(loss)(w)


def test_the_gradient_of_windows_of_one_pixel() -> None:
    tactics = [
        partir.ManualPartition({"x": 0}, axis="B"),
        partir.ManualPartition({"w": 2}, axis="B"),
    ]
    args = (shape(3, 3, 4, 2), shape(4, 1, 1, 4))
    p = partir.partition(stepped, {"B": 4}, tactics, args=args)
    assert not p.verify().not_proved
    text = p.stablehlo()
    one_off = text.replace("dense<[[1, 1], [1, 1]]>", "dense<[[1, 1], [2, 0]]>")
    unlike = text.replace("stablehlo.cosine", "stablehlo.sine")
    assert one_off != text != unlike
    assert p.proof(one_off).proved == p.proof(unlike).proved == ()


def around(x: jax.Array, *numbers: float, low: int = 1) -> jax.Array:
    """One pixel of each image, with one number around it and then another."""
    column = lax.pad(x[:, None], numbers[0], ((0, 0, 0), (low, 2 - low, 0), (0, 0, 0)))
    return lax.pad(
        column[:, None], numbers[1], ((0, 0, 0), (1, 1, 0), (0, 0, 0), (0, 0, 0))
    )


def of_images(numbers: tuple[float, float], low: int = 1) -> partir.Partitioned:
    tactic = partir.ManualPartition({"x": 0}, axis="B")

    def images(x: jax.Array) -> jax.Array:
        return around(x, *numbers, low=low)

    return partir.partition(images, {"B": 4}, [tactic], args=(shape(4, 2),))


def test_another_number_or_place_around_is_another_value() -> None:
    right = of_images((1.0, 1.0))
    assert not right.verify().not_proved
    wrong = [of_images((2.0, 1.0)), of_images((1.0, 2.0)), of_images((1.0, 1.0), low=0)]
    for other in wrong:
        assert right.proof(other.stablehlo()).proved == ()
        assert other.proof(right.stablehlo()).proved == ()


def smallest(x: jax.Array, start: jax.Array) -> jax.Array:
    """Windows along dimensions of one row, and along one whose rows are equal."""
    wide = jnp.broadcast_to(x[:, None, :, None], (8, 1, 4, 3))
    padding = ((0, 0), (0, 2), (0, 0), (2, 0))
    return lax.reduce_window(wide, start, lax.min, (1, 3, 1, 2), (1,) * 4, padding)


def test_windows_along_dimensions_without_rows() -> None:
    tactic = partir.ManualPartition({"x": 0}, axis="B")
    args = (shape(8, 4), shape())
    p = partir.partition(smallest, {"B": 4}, [tactic], args=args)
    assert not p.verify().not_proved
    text = p.stablehlo()
    for right, wrong in (("[2, 0]]>", "[1, 1]]>"), ("minimum", "maximum")):
        assert right in text
        assert p.proof(text.replace(right, wrong)).proved == ()


def framed(x: jax.Array, inner: float = 0.0, outer: float = 1.0) -> jax.Array:
    """A number around a column along both dimensions, and another around both."""
    made = lax.pad(x, inner, ((1, 0, 0), (1, 0, 1)))
    return lax.pad(made, outer, ((2, 0, 0), (2, 0, 0)))


def test_numbers_around_numbers_are_read_as_the_source_has_them() -> None:
    x = shape(4, 1)
    p = partir.partition(framed, {"B": 2}, [], args=(x,))
    assert not p.verify().not_proved
    for numbers in ((2.0, 1.0), (0.0, 2.0), (1.0, 0.0)):
        other = partir.partition(
            lambda x, n=numbers: framed(x, *n), {"B": 2}, [], args=(x,)
        )
        assert p.proof(other.stablehlo()).proved == ()
