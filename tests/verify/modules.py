"""Modules as text, and a check that wrong ones are not proved, and right ones are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import partir
from partir.mesh import Mesh
from partir.verify import prove

TWO = Mesh({"B": 2})
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
Tiling = tuple[tuple[str, ...], ...]
WHOLE: Tiling = ()


class Case(NamedTuple):
    """A source, and what devices do; with the tilings of arguments and of the result.

    A tiling may leave out dimensions that are whole.
    """

    source: str
    local: str
    given: Sequence[Tiling]
    made: Tiling = WHOLE
    mesh: Mesh = TWO


def function(arguments: Mapping[str, str], made: str, *body: str) -> str:
    """A module of one function that returns `%r`."""
    given = ", ".join(f"%{name}: tensor<{type_}>" for name, type_ in arguments.items())
    lines = "\n  ".join((*body, f"return %r : tensor<{made}>"))
    return f"func.func public @main({given}) -> tensor<{made}> {{\n  {lines}\n}}"


def constant(name: str, number: object, type_: str) -> str:
    """`%name` is a number everywhere."""
    return f"%{name} = stablehlo.constant dense<{number}> : tensor<{type_}>"


def unary(name: str, kind: str, operand: str, before: str, after: str) -> str:
    """`%name`, an op on one operand; `kind` may end in what is written before types."""
    kind, _, rest = kind.partition("|")
    types = f"(tensor<{before}>) -> tensor<{after}>"
    return f"%{name} = stablehlo.{kind} %{operand}{rest} : {types}"


def compare(name: str, way: str, x: str, y: str, type_: str) -> str:
    """`%name`, whether x is less than y, or whatever the way."""
    made = type_.rpartition("x")[0]
    types = f"(tensor<{type_}>, tensor<{type_}>) -> tensor<{f'{made}x' * bool(made)}i1>"
    return f"%{name} = stablehlo.compare {way}, %{x}, %{y} : {types}"


def reducer(op: str, dtype: str) -> str:
    """The region of a reduction."""
    t = f"tensor<{dtype}>"
    return f"""({{
    ^bb0(%p: {t}, %q: {t}):
      %pq = stablehlo.{op} %p, %q : {t}
      stablehlo.return %pq : {t}
  }})"""


def all_reduce(
    name: str, operand: str, op: str, type_: str, made: str | None = None
) -> str:
    """`%name`, over both devices."""
    made = made or type_
    region = reducer(op, made.rpartition("x")[2])
    return f"""%{name} = "stablehlo.all_reduce"(%{operand}) {region} {{
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, {CHANNEL},
    use_global_device_ids}} : (tensor<{type_}>) -> tensor<{made}>"""


def permute(name: str, operand: str, pairs: list[list[int]], type_: str) -> str:
    """`%name`, from sources to targets."""
    count = f"tensor<{len(pairs)}x2xi64>"
    return f"""%{name} = "stablehlo.collective_permute"(%{operand}) {{
    source_target_pairs = dense<{pairs}> : {count}, {CHANNEL}
    }} : (tensor<{type_}>) -> tensor<{type_}>"""


def device(name: str, times: int) -> str:
    """`%name`, the number of the device times a number, as i32."""
    return f"""%id = stablehlo.partition_id : tensor<ui32>
  %number = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %tile = stablehlo.constant dense<{times}> : tensor<i32>
  %{name} = stablehlo.multiply %number, %tile : tensor<i32>"""


def is_proved(case: Case) -> bool:
    """Whether the result is proved."""
    program = partir.load(case.source)
    (port,) = program.results
    values = [*program.body.arguments, port.value]
    tilings = [
        (*tiling, *((),) * (len(program.types[value].shape) - len(tiling)))
        for value, tiling in zip(values, (*case.given, case.made), strict=True)
    ]
    proof = prove(program, case.local, case.mesh, tilings[:-1], tilings[-1:])
    return bool(proof.proved)
