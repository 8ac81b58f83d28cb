"""StableHLO as text: tensors by name, and a line for each op that makes one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

LOWEST = "0xFF800000"  # minus infinity
NEUTRAL = {"add": "0.0", "maximum": LOWEST}
GROUPS = (
    "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids, "
    "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
)


class Tensor(NamedTuple):
    """A value of a module."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "f32"

    @property
    def type(self) -> str:
        """Its type, as modules write it."""
        return f"tensor<{'x'.join([*map(str, self.shape), self.dtype])}>"

    def sized(self, dim: int, size: int) -> tuple[int, ...]:
        """Its shape, with another size of one dimension."""
        return (*self.shape[:dim], size, *self.shape[dim + 1 :])

    def along(self, dim: int, one: int, other: int = 0) -> list[int]:
        """A number for one dimension, and another for the rest."""
        return [one if d == dim else other for d in range(len(self.shape))]


def ints(numbers: Iterable[int]) -> str:
    """An attribute of integers."""
    found = ", ".join(map(str, numbers))
    return f"array<i64: {found}>" if found else "array<i64>"


class Writer:
    """The lines of a function, and its arguments by name."""

    def __init__(self, *arguments: Tensor) -> None:
        self.arguments = arguments
        self.named = {argument.name: argument for argument in arguments}
        self.lines: list[str] = []

    def module(self, made: Tensor) -> str:
        """The module that returns a tensor."""
        given = ", ".join(f"%{one.name}: {one.type}" for one in self.arguments)
        body = "\n  ".join([*self.lines, f"return %{made.name} : {made.type}"])
        return f"func.func public @main({given}) -> {made.type} {{\n  {body}\n}}\n"

    def op(
        self,
        kind: str,
        operands: Sequence[Tensor],
        shape: Sequence[int],
        attrs: str = "",
        *,
        dtype: str = "f32",
        region: str = "",
    ) -> Tensor:
        """Any op, in MLIR's generic form; `region` names the op of its region."""
        made = Tensor(f"v{len(self.lines)}", tuple(shape), dtype)
        names = ", ".join(f"%{one.name}" for one in operands)
        types = ", ".join(one.type for one in operands)
        inner = f" {_region(made.name, region)}" if region else ""
        self.lines.append(
            f'%{made.name} = "stablehlo.{kind}"({names}){inner} {{{attrs}}} : '
            f"({types}) -> {made.type}"
        )
        return made

    # Ops that several kinds of steps are made of

    def constant(
        self, number: object, shape: Sequence[int] = (), dtype: str = "f32"
    ) -> Tensor:
        """Numbers that are known."""
        type_ = Tensor("", tuple(shape), dtype).type
        attrs = f"value = dense<{number}> : {type_}"
        return self.op("constant", [], shape, attrs, dtype=dtype)

    def binary(self, kind: str, x: Tensor, y: Tensor) -> Tensor:
        """An elementwise op on two tensors."""
        return self.op(kind, [x, y], x.shape)

    def slice(self, x: Tensor, dim: int, start: int, end: int) -> Tensor:
        """Some rows along one dimension."""
        limits = [end if d == dim else size for d, size in enumerate(x.shape)]
        attrs = f"start_indices = {ints(x.along(dim, start))}, limit_indices = "
        attrs += f"{ints(limits)}, strides = {ints(x.along(dim, 1, 1))}"
        return self.op("slice", [x], x.sized(dim, end - start), attrs)

    def broadcast(self, x: Tensor, dims: Sequence[int], shape: Sequence[int]) -> Tensor:
        """A tensor repeated along all other dimensions."""
        attrs = f"broadcast_dimensions = {ints(dims)}"
        return self.op("broadcast_in_dim", [x], shape, attrs)

    def reduce(self, kind: str, x: Tensor, dim: int) -> Tensor:
        """The sum or maximum over a dimension."""
        start = self.constant(NEUTRAL[kind])
        shape = x.shape[:dim] + x.shape[dim + 1 :]
        attrs = f"dimensions = {ints([dim])}"
        return self.op("reduce", [x, start], shape, attrs, region=kind)

    def all_reduce(self, kind: str, x: Tensor) -> Tensor:
        """The sum or maximum over both devices."""
        return self.op("all_reduce", [x], x.shape, GROUPS, region=kind)

    def all_gather(self, x: Tensor) -> Tensor:
        """The rows of both devices."""
        attrs = f"all_gather_dim = 0 : i64, {GROUPS}"
        return self.op("all_gather", [x], x.sized(0, 2 * x.shape[0]), attrs)


def _region(name: str, kind: str) -> str:
    """What is done with two numbers: combined, or compared."""
    made, attrs = ("i1", _LESS) if kind == "compare" else ("f32", "")
    two, types = f"%{name}a, %{name}b", "(tensor<f32>, tensor<f32>)"
    return f"""({{
    ^bb0(%{name}a: tensor<f32>, %{name}b: tensor<f32>):
      %{name}c = "stablehlo.{kind}"({two}) {{{attrs}}} : {types} -> tensor<{made}>
      "stablehlo.return"(%{name}c) : (tensor<{made}>) -> ()
  }})"""


_LESS = "comparison_direction = #stablehlo<comparison_direction LT>"
