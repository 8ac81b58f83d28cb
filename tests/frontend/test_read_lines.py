"""Modules read line by line are what MLIR reads, or are left to MLIR."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import pytest

import partir
from partir.errors import PartitionError
from partir.frontend.device_local import read_device_local, read_module
from partir.frontend.read_lines import read_lines

pytestmark = pytest.mark.quick


def _step(x: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
    y = jnp.tanh(x @ w) * jnp.arange(4.0)
    return y, jnp.sort(y, 0), y.sum(1), jax.nn.softmax(jnp.pad(y, 1)[1:, 1:])


@cache
def text(looped: bool = False) -> str:
    def fn(x: jax.Array, w: jax.Array) -> object:
        if looped:
            return jax.lax.fori_loop(0, 3, lambda _, y: y @ w, x)
        return _step(x, w)

    args = tuple(jax.ShapeDtypeStruct((n, 4), "float32") for n in (8, 4))
    tactics = [
        partir.ManualPartition({"x": 0}, axis="B"),
        partir.ManualPartition({"w": 0}, axis="M"),
    ]
    return partir.partition(fn, {"B": 2, "M": 2}, tactics, args=args).stablehlo()


def test_both_ways_to_read_give_the_same() -> None:
    found = read_lines(text())
    assert found is not None
    assert found == read_module(text())


def test_places_without_a_name_are_lines() -> None:
    bare = "\n".join(line.partition(" loc(")[0] for line in text().split("\n"))
    bare = "\n".join(line for line in bare.split("\n") if not line.startswith("#loc"))
    found = read_lines(bare)
    assert found is not None
    assert found == read_module(bare)


def test_channels_are_read_as_one() -> None:
    other = text().replace("handle = 1,", "handle = 77,")
    assert "handle = 77," in other
    assert read_lines(other) == read_lines(text())
    assert read_module(other) == read_module(text())


def _commented_out(text: str) -> str:
    lines = text.split("\n")
    at = next(n for n, line in enumerate(lines) if "tanh" in line and line[0] == "%")
    return "\n".join([*lines[:at], f"// {lines[at]}", *lines[at:]])


def _indented(text: str) -> str:
    return text.replace("\n%", "\n  %")


def _in_two_lines(text: str) -> str:
    return text.replace('"stablehlo.tanh"(', '"stablehlo.tanh"\n(')


def _two_in_a_line(text: str) -> str:
    at = text.index("\n", text.index('"stablehlo.tanh"'))
    return f"{text[:at]} {text[at + 1 :]}"


OTHERWISE = [_commented_out, _indented, _in_two_lines, _two_in_a_line]


@pytest.mark.parametrize("change", OTHERWISE)
def test_what_is_written_otherwise_is_for_mlir(change: Callable[[str], str]) -> None:
    other = change(text())
    assert other != text()
    assert read_lines(other) is None
    kinds = [op.kind for op in read_device_local(other).ops]
    assert kinds == [op.kind for op in read_module(text()).ops]


def test_loops_are_for_mlir() -> None:
    assert read_lines(text(looped=True)) is None
    assert read_device_local(text(looped=True)) == read_module(text(looped=True))


def _unknown_name(text: str) -> str:
    return text.replace('"stablehlo.tanh"(%', '"stablehlo.tanh"(%missing')


def _used_twice(text: str) -> str:
    lines = text.split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith("%"))
    return "\n".join([*lines[: at + 1], *lines[at:]])


def _of_another_type(text: str) -> str:
    """An operand that is not what the op says it is."""
    lines = text.split("\n")
    at = next(n for n, line in enumerate(lines) if '"stablehlo.tanh"' in line)
    head, _, rest = lines[at].partition("(")
    lines[at] = f"{head}(%arg1){rest.partition(')')[2]}"
    return "\n".join(lines)


def _another_result(text: str) -> str:
    lines = text.split("\n")
    head, _, rest = lines[-3].partition("(")
    lines[-3] = f"{head}(%arg1, {rest.partition(', ')[2]}"
    return "\n".join(lines)


def _no_such_attribute(text: str) -> str:
    return text.replace("dimension = 0", "dimension = 9")


WRONG = [_unknown_name, _used_twice, _of_another_type, _another_result]
WRONG += [_no_such_attribute]


@pytest.mark.parametrize("change", WRONG)
def test_what_is_no_module_is_an_error(change: Callable[[str], str]) -> None:
    wrong = change(text())
    assert wrong != text()
    assert read_lines(wrong) is None
    with pytest.raises(PartitionError, match="not a StableHLO module"):
        read_device_local(wrong)
