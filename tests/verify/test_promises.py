"""Calls that nobody looks into: their rules are believed, and nothing beyond them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.api.partitioned import Partitioned
from partir.ir.user_rule import parse
from partir.mesh import Mesh
from partir.verify import Promises, prove
from tests.verify.modules import TWO, all_reduce

MESH = {"B": 2, "M": 2}


def scaled(x: Any, w: Any) -> Any:
    return jnp.sin(x) @ w


def shifted(x: Any, w: Any) -> Any:
    return jnp.cos(x) @ w


def attended(q: Any, k: Any) -> Any:
    return q * jnp.repeat(k, q.shape[0] // k.shape[0], axis=0)


kept = partir.opaque(scaled, "b _, _ n -> b n", name="scaled")
other = partir.opaque(shifted, "b _, _ n -> b n", name="shifted")
summing = partir.opaque(scaled, "b d, d n -> b n sum=d", name="summing")
grouped = partir.opaque(attended, "h _, h _ -> h _ grouped=h", name="attended")


def tiled(x: Any, w: Any) -> Any:
    return kept(x, w) - other(2 * x, w)


def summed(x: Any, w: Any) -> Any:
    return jnp.tanh(summing(x, w))


def differentiated(x: Any, w: Any) -> Any:
    return jax.grad(lambda w: kept(x, w).sum())(w)


def of(fn: Any, shapes: Any = ((8, 4), (4, 6)), **dims: int) -> Partitioned:
    args = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    tactics = [
        partir.ManualPartition({name: dim}, axis=axis, name=name)
        for (name, dim), axis in zip(dims.items(), "BM", strict=False)
    ]
    return partir.partition(fn, MESH, tactics, args=args)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(lambda: of(tiled, x=0, w=1), id="tiles"),
        pytest.param(lambda: of(summed, x=1), id="a sum of parts"),
        pytest.param(lambda: of(differentiated, x=0), id="a gradient"),
        pytest.param(lambda: of(grouped, ((8, 3), (2, 3)), q=0), id="groups"),
    ],
)
def test_is_proved(record: Any) -> None:
    assert not record().proof().not_proved


@pytest.mark.parametrize(
    "name", ["another body", "another function", "of another value"]
)
def test_another_call_is_not_proved(name: str) -> None:
    record = of(tiled, x=0, w=1)
    text = record.stablehlo()
    old, new = {
        "another body": ("stablehlo.sine", "stablehlo.cosine"),
        "another function": ("callee = @shifted_1", "callee = @scaled_0"),
        "of another value": ('"func.call"(%4,', '"func.call"(%arg0,'),
    }[name]
    assert old in text
    assert not record.proof(text.replace(old, new)).proved


@pytest.mark.parametrize(
    ("old", "new"),
    [('add"(%l0', 'maximum"(%l0'), ('"stablehlo.tanh"(%2)', '"stablehlo.tanh"(%1)')],
    ids=["another reduction", "none"],
)
def test_parts_are_put_together_as_the_rule_says(old: str, new: str) -> None:
    record = of(summed, x=1)
    text = record.stablehlo()
    assert old in text
    assert not record.proof(text.replace(old, new)).proved


def called(rows: int, columns: int, rest: str = "") -> str:
    given, made = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
    name = "%y" if rest else "%r"
    return f"""func.func public @main(%x: {given}) -> {made} {{
      {name} = stablehlo.custom_call @norms(%x) : ({given}) -> {made}
      {rest}
      return %r : {made}
    }}"""


BY_ROWS = [(("B",), ())], [(("B",),)]
BY_COLUMNS = [((), ("B",))], [((),)]
SUM = all_reduce("r", "y", "add", "8xf32")


@pytest.mark.parametrize(
    ("rule", "local", "tilings", "proved"),
    [
        ("b _ -> b", called(4, 6), BY_ROWS, True),
        ("_ _ -> _", called(4, 6), BY_ROWS, False),
        ("", called(4, 6), BY_ROWS, False),
        ("b d -> b sum=d", called(8, 3, SUM), BY_COLUMNS, True),
        ("b d -> b sum=d", called(4, 6), BY_ROWS, True),
        ("b d -> b max=d", called(8, 3, SUM), BY_COLUMNS, False),
        ("b d -> b same=d", called(8, 3, SUM), BY_COLUMNS, False),
        ("b d -> b same=d", called(8, 3), BY_COLUMNS, True),
        ("b d -> b sum=d", called(8, 3), BY_COLUMNS, False),
        ("b d -> b max=d", called(8, 3), BY_COLUMNS, False),
        ("_ d -> _ same=d", called(4, 6), BY_ROWS, False),
        ("b _ -> b", called(8, 3, SUM), BY_COLUMNS, False),
    ],
)
def test_a_rule_of_a_custom_call(
    rule: str, local: str, tilings: Any, proved: bool
) -> None:
    source = partir.load(called(8, 6))
    promises = Promises({"norms": parse(rule)} if rule else {})
    proof = prove(source, local, TWO, *tilings, promises)
    assert bool(proof.proved) is proved


def test_a_rule_is_of_the_mesh_that_it_is_proved_on() -> None:
    """What is cut otherwise than results say is not proved, rule or not."""
    source, mesh = partir.load(called(8, 6)), Mesh({"B": 2})
    promises = Promises({"norms": parse("b _ -> b")})
    whole = [((), ())], [((),)]
    assert prove(source, called(8, 6), mesh, *whole, promises).proved
    wrong = [(("B",), ())], [((),)]
    assert not prove(source, called(4, 6), mesh, *wrong, promises).proved
