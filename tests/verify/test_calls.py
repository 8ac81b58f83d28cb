"""Custom calls whose meaning is known: along which dimensions they work row by row."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import partir
from tests.verify.modules import Case, is_proved

ROWS = partir.ManualPartition({"x": 0}, axis="B", name="rows")


def decomposed(x: jax.Array) -> object:
    return jnp.linalg.qr(x), jnp.linalg.eigh(x + x.mT)[0]


def approximate(x: jax.Array) -> object:
    return lax.approx_max_k(x[..., 0], 2)


@pytest.mark.parametrize("fn", [decomposed, approximate])
def test_batches_are_proved(fn: object) -> None:
    x = jax.ShapeDtypeStruct((4, 3, 3), "float32")
    record = partir.partition(fn, {"B": 2}, [ROWS], args=(x,))  # type: ignore[arg-type]  # a function
    assert not record.proof().not_proved


def test_another_comparison_is_not_proved() -> None:
    """It is a function of the module, which the call names."""
    x = jax.ShapeDtypeStruct((4, 8, 1), "float32")
    record = partir.partition(approximate, {"B": 2}, [ROWS], args=(x,))
    text = record.stablehlo()
    assert "comparison_direction GT" in text
    changed = text.replace("comparison_direction GT", "comparison_direction LT")
    assert not record.proof(changed).proved


def called(target: str, shape: str, attrs: str = "") -> str:
    type_ = f"tensor<{shape}xf32>"
    return f"""func.func public @main(%x: {type_}) -> {type_} {{
      %r = "stablehlo.custom_call"(%x) {{call_target_name = "{target}"{attrs}}}
          : ({type_}) -> {type_}
      return %r : {type_}
    }}"""


def batches(count: int) -> str:
    return f', mhlo.frontend_attributes = {{num_batch_dims = "{count}"}}'


@pytest.mark.parametrize(
    ("target", "attrs", "proved"),
    [
        ("lapack", batches(1), True),
        ("lapack", batches(0), False),
        ("lapack", "", False),
        ("Eigh", "", False),  # of matrices, the rows of which are cut here
        ("PartialReduce", ", mhlo.backend_config = {reduction_dim = 1 : i64}", True),
        ("PartialReduce", ", mhlo.backend_config = {reduction_dim = 0 : i64}", False),
        ("mhlo.topk", "", True),
        ("mhlo.erf", "", True),
        ("erf", "", False),
    ],
)
def test_along_which_dimensions(target: str, attrs: str, proved: bool) -> None:
    whole, local = called(target, "4x6", attrs), called(target, "2x6", attrs)
    assert is_proved(Case(whole, local, [(("B",),)], (("B",),))) is proved
