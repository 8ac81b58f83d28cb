"""A module's numbers say the same as walking it through the bindings."""

import jax
import jax.numpy as jnp
import pytest

from partir.frontend import numbered as numbers
from partir.frontend.numbered import numbered
from partir.frontend.parsing import parse_module


def lowered(fn, *shapes):
    args = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return jax.jit(fn).lower(*args).compiler_ir("stablehlo")


def branches_in_a_loop(x):
    def body(i, carried):
        y, z = carried
        y = jax.lax.cond(z[0] > i, lambda: y + jnp.sum(x), lambda: jnp.sort(y))
        return y, z * 2

    return jax.lax.fori_loop(0, 3, body, (x, x))


def long_chain(x):
    for _ in range(70):
        x = jnp.sin(x) * 2 + jax.nn.softmax(x)
    return x


MODULES = {
    "branches in a loop": lambda: lowered(branches_in_a_loop, (8,)),
    "calls": lambda: lowered(lambda x: jax.jit(jnp.tanh)(jax.jit(jnp.cos)(x)), (4,)),
    "several results": lambda: lowered(lambda x: jax.lax.top_k(x, 2), (4, 4)),
    "a long chain": lambda: lowered(long_chain, (4, 4)),
    "a mesh and no arguments": lambda: parse_module(
        """
        sdy.mesh @mesh = <["x"=2]>
        func.func private @f()
        func.func @main() -> (tensor<2xf32>, tensor<i1>) {
          %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
          %1 = stablehlo.constant dense<true> : tensor<i1>
          return %0, %1 : tensor<2xf32>, tensor<i1>
        }"""
    ),
}


def check_block(block, rows, env, alike):
    """Ops, operands and results one by one; `alike` are the ops seen so far."""
    assert len(rows.arguments) == len(block.arguments)
    env.update(zip(block.arguments, rows.arguments, strict=True))
    ops = [op.operation for op in block.operations]
    assert len(ops) == len(rows.ops)
    for op, row in zip(ops, rows.ops, strict=True):
        assert row.name == op.name
        assert row.operands == tuple(env[v] for v in op.operands)
        env.update(zip(op.results, row.results, strict=True))
        alike.setdefault(row.alike, []).append((op, row))
        for region, inner in zip(op.regions, row.regions, strict=True):
            blocks = list(region.blocks)
            if blocks:
                check_block(blocks[0], inner, env, alike)
            else:
                assert inner.ops == ()


def what_it_is(op):
    """All of an op but its operands and location."""
    regions = [
        [what_it_is(o.operation) for o in b.operations]
        for region in op.regions
        for b in region.blocks
    ]
    types = [str(v.type) for v in (*op.results,)]
    return op.name, {n: str(op.attributes[n]) for n in op.attributes}, types, regions


@pytest.mark.parametrize("name", MODULES)
def test_ops_values_and_what_is_alike(name):
    module = MODULES[name]()
    alike = {}
    check_block(module.body, numbered(module), {}, alike)
    kinds = [what_it_is(same[0][0]) for same in alike.values()]
    for same, kind in zip(alike.values(), kinds, strict=True):
        assert all(what_it_is(op) == kind for op, _ in same)
        places = {}
        for op, row in same:
            assert places.setdefault(row.location, str(op.location)) == str(op.location)
    assert len(kinds) > 1


@pytest.mark.parametrize("bits", [0, 1, 6, 7, 8, 13, 14, 20, 21, 27, 28, 55, 56, 63])
def test_numbers_of_every_length(bits):
    number = (1 << bits) + (bits > 1)
    data = written(number) + b"\x03"
    values, lengths = numbers._everywhere(data)
    reader = numbers._Numbers(data, 0)
    assert (values[0], reader.next()) == (number, number)
    assert lengths[0] == reader.at == len(data) - 1
    assert values[lengths[0]] == 1


def written(number):
    """A number as MLIR writes it: as many low zeros as there are bytes more."""
    for length in range(1, 9):
        if number < 1 << 7 * length:
            return ((number << 1 | 1) << length - 1).to_bytes(length, "little")
    return b"\0" + number.to_bytes(8, "little")
