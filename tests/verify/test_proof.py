"""Right programs are proved; programs with one mistake are not."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import partir
from benchmarks.models import mlp, scanned, suite, transformer

pytestmark = pytest.mark.quick

MESH = {"B": 4, "M": 2}
CASES = [
    *(("mlp", each) for each in ("BP", "MP", "BP+MP+Z2", "BP+MP+Z3")),
    *(("scanned", each) for each in ("BP+MP", "BP+MP+Z2", "BP+MP+Z3")),
    ("transformer", "BP+MP+Z3"),
]


@cache
def model(name: str) -> suite.Model:
    if name == "mlp":
        config = mlp.Config(blocks=1, width=8, hidden=16, batch=32)
        args = mlp.example_args(config)[0]
        return suite.Model(name, mlp.train_step, args, mlp.BATCH, mlp.MODEL)
    if name == "scanned":
        args = scanned.example_args()[0]
        return suite.Model(
            name, scanned.train_step, args, scanned.BATCH, scanned.MODEL, loops=True
        )
    small = transformer.Config.small(
        layers=1, width=32, head_dim=8, hidden=64, vocab=64, sequence=16
    )
    return suite.transformer_model(name, small)


@cache
def partitioned(name: str, schedule: str) -> Any:
    chosen = model(name)
    return suite.partitioned(chosen, chosen.schedules()[schedule], MESH)


@pytest.mark.parametrize(("name", "schedule"), CASES)
def test_training_steps_are_proved(name: str, schedule: str) -> None:
    p = partitioned(name, schedule)
    found = p.verify()
    assert found.proved == tuple(port.name for port in p.program.results)
    assert not found.not_proved
    assert found.seconds > 0


def test_neither_names_nor_locations_matter() -> None:
    p = partitioned("mlp", "BP+MP+Z3")
    text = re.sub(r" loc\(.*\)$", "", p.stablehlo(), flags=re.M)
    text = re.sub(r"^#loc.*\n", "", text, flags=re.M)
    text = re.sub(r"%(\d+)", r"%v\1x", text)
    assert "loc(" not in text
    p.verify(text)


def test_order_does_not_matter() -> None:
    p = partitioned("mlp", "BP+MP+Z3")
    text = p.stablehlo()
    gathers = [
        line for line in text.splitlines() if "all_gather" in line and "%arg" in line
    ]
    body = [line for line in text.splitlines() if line not in gathers]
    first = next(n for n, line in enumerate(body) if line.startswith("func.func")) + 1
    p.verify("\n".join([*body[:first], *reversed(gathers), *body[first:]]))


def dropped(text: str, kind: str) -> str:
    """Without its first collective of a kind that keeps shapes."""
    pattern = rf'(%\d+) = "stablehlo.{kind}"\((%[\w#]+)\)(?s:.*?)\n(?=%|"|\}})'
    found = re.search(pattern, text)
    assert found is not None
    end = text.index("->", text.index("channel_handle", found.start()))
    end = text.index("\n", end)
    rest = re.sub(rf"{found[1]}\b", found[2], text[end:])
    return text[: found.start()] + rest.lstrip("\n")


def test_a_sum_left_out_is_found() -> None:
    p = partitioned("mlp", "BP")
    with pytest.raises(partir.VerificationError, match=r"is (wrong|not proved)"):
        p.verify(dropped(p.stablehlo(), "all_reduce"))


def test_the_wrong_axis_is_found() -> None:
    p = partitioned("mlp", "BP+MP")
    text = p.stablehlo()
    head, mark, rest = text.partition("replica_groups = #groups_M")
    assert mark
    wrong = f"{head}replica_groups = #groups_B{rest}"
    found = p.proof(wrong)
    assert found.not_proved
    with pytest.raises(partir.VerificationError):
        p.verify(wrong)


def test_counting_from_the_wrong_place_is_found() -> None:
    def f(y: jax.Array) -> jax.Array:
        return y + jnp.arange(8)[:, None]

    y = jax.ShapeDtypeStruct((8, 8), "int32")
    tactic = partir.ManualPartition({"y": 0}, "B")
    p = partir.partition(f, {"B": 4}, [tactic], args=(y,))
    text, size = p.stablehlo(), "dense<2> : tensor<i32>"
    assert not p.verify().not_proved
    assert text.count(size) == 1
    for wrong in (0, 1, 3):
        assert p.proof(text.replace(size, f"dense<{wrong}> : tensor<i32>")).not_proved


def test_maximum_for_sum_is_found() -> None:
    p = partitioned("mlp", "BP")
    text = p.stablehlo()
    at = text.index("stablehlo.all_reduce")
    wrong = text[:at] + text[at:].replace('"stablehlo.add"', '"stablehlo.maximum"', 1)
    assert p.proof(wrong).not_proved


def test_the_wrong_layout_is_disproved() -> None:
    def f(x: jax.Array) -> jax.Array:
        return x

    x = jax.ShapeDtypeStruct((8, 8), "float32")
    p = partir.partition(
        f, {"B": 2}, [partir.ManualPartition({"x": 0}, axis="B")], args=(x,)
    )
    text = p.stablehlo()
    assert not p.verify().not_proved
    body = """%1 = "stablehlo.all_to_all"(%arg0) {split_dimension = 1 : i64,
      concat_dimension = 0 : i64, split_count = 2 : i64,
      replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} :
      (tensor<4x8xf32>) -> tensor<8x4xf32>
    %2 = stablehlo.reshape %1 : (tensor<8x4xf32>) -> tensor<4x8xf32>
    "func.return"(%2)"""
    found = p.proof(text.replace('"func.return"(%arg0)', body))
    assert [one.disproved for one in found.not_proved] == [True]
    assert "is wrong: is laid out as" in str(found)


def test_another_module_is_refused() -> None:
    p = partitioned("mlp", "BP")
    with pytest.raises(partir.VerificationError, match="the module has 1 arguments"):
        p.verify(
            "func.func @main(%x: tensor<f32>) -> tensor<f32> {return %x : tensor<f32>}"
        )


@pytest.mark.parametrize("reduction", [jnp.max, jnp.min])
def test_maxima_over_devices_are_proved(reduction: Any) -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.exp(x - reduction(x, axis=1, keepdims=True))

    x = jax.ShapeDtypeStruct((8, 8), "float32")
    tactic = partir.ManualPartition({"x": 1}, "B")
    p = partir.partition(f, {"B": 4}, [tactic], args=(x,))
    assert p.collectives["all_reduce"] == 1
    assert not p.verify().not_proved


def test_values_without_elements_are_proved() -> None:
    x = jax.ShapeDtypeStruct((0, 8), "float32")
    tactic = partir.ManualPartition({"x": 1}, "B")
    p = partir.partition(lambda x: x + 1, {"B": 4}, [tactic], args=(x,))
    assert p.verify().proved == ("out",)
