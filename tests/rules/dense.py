"""ragged_dot written out as dense products, as jax does where XLA has no such op."""

from __future__ import annotations

import re

import jax
from jax import lax

from partir.execute.types import jax_struct
from partir.ir.attributes import fields
from partir.ir.types import TensorType, tensor

_OP = re.compile(
    r'"chlo\.ragged_dot"(\([^)]*\)) \{(.*?>)[^}]*\} : \((.*)\) -> tensor<(.*)>'
)


def with_dense_products(text: str) -> str:
    """The module with a call in place of every ragged_dot."""
    functions: dict[tuple[str, ...], str] = {}

    def call(found: re.Match[str]) -> str:
        operands, attrs, ins, out = found.groups()
        key = (attrs, ins, out)
        if key not in functions:
            functions[key] = _function(f"ragged{len(functions)}", *key)
        name = list(functions).index(key)
        callee = f"callee = @ragged{name}_main"
        return f'"func.call"{operands} {{{callee}}} : ({ins}) -> tensor<{out}>'

    made = _OP.sub(call, text)
    head, brace, rest = made.partition("{")
    return "\n".join([head + brace, *functions.values(), rest])


def _function(prefix: str, attrs: str, ins: str, out: str) -> str:
    numbers = fields(attrs)

    def dims(name: str) -> tuple[int, ...]:
        return numbers.get(name, ())

    contracting = dims("lhs_contracting_dimensions"), dims("rhs_contracting_dimensions")
    batching = dims("lhs_batching_dimensions"), dims("rhs_batching_dimensions")
    spec = lax.RaggedDotDimensionNumbers(
        (contracting, batching),
        dims("lhs_ragged_dimensions"),
        dims("rhs_group_dimensions"),
    )
    structs = [jax_struct(_type(item)) for item in re.findall(r"<([^>]*)>", ins)]
    lowered = jax.jit(
        lambda *args: lax.ragged_dot_general(*args, ragged_dot_dimension_numbers=spec)
    ).lower(*structs)
    text = lowered.as_text()
    body = text[text.index("{", text.index("module")) :]
    body = body[body.index("\n") : body.rindex("}")]
    body = body.replace("func.func public", "func.func private")
    return re.sub(r"@(\w+)", rf"@{prefix}_\1", body)


def _type(text: str) -> TensorType:
    *sizes, dtype = text.split("x")
    return tensor(tuple(map(int, sizes)), dtype)
