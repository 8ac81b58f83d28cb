"""Reducers and comparators read nothing from outside but constants."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import partir

REDUCE = """
  %{name} = "stablehlo.reduce"(%x, %z) ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
     "stablehlo.return"(%{result}) : (tensor<f32>) -> () }})
     {{dimensions = array<i64: 0>}} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"""
ADDS = """
func.func {kind} @{name}(%x: tensor<4xf32>) -> tensor<f32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %c = stablehlo.constant dense<{number}> : tensor<f32>
  {call}
  %r = "stablehlo.reduce"(%x, %z) ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
     %s = stablehlo.add %a, %b : tensor<f32>
     %m = stablehlo.maximum %s, %c : tensor<f32>
     "stablehlo.return"(%m) : (tensor<f32>) -> () }})
     {{dimensions = array<i64: 0>}} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  {last}
}}"""


@pytest.mark.parametrize("results", [("b", "z"), ("z", "b")])
def test_a_value_from_outside_is_no_own_one_of_the_same_number(results):
    ops = [
        REDUCE.format(name=name, result=result)
        for name, result in zip("rs", results, strict=True)
    ]
    text = f"""
func.func public @main(%x: tensor<4xf32>, %z: tensor<f32>) -> (tensor<f32>, tensor<f32>)
{{ {"".join(ops)}
  return %r, %s : tensor<f32>, tensor<f32>
}}"""
    with pytest.raises(partir.PartitionError, match="reads values from outside"):
        partir.load(text)


def test_constants_of_several_functions_that_have_the_same_numbers():
    call = "%o = func.call @other(%x) : (tensor<4xf32>) -> tensor<f32>"
    add = "%t = stablehlo.add %o, %r : tensor<f32>"
    back = "return %{} : tensor<f32>"
    other = ADDS.format(
        kind="private", name="other", number="7.0", call="", last=back.format("r")
    )
    main = ADDS.format(
        kind="public",
        name="main",
        number="2.0",
        call=call,
        last=f"{add} {back.format('t')}",
    )
    program = partir.load(other + main)
    (one, two) = [op for op in program.ops if op.signature.name == "reduce"]
    numbers = {
        inner.signature.attrs["value"]
        for op in (one, two)
        for inner in op.signature.lambdas[0].ops
        if inner.signature.name == "constant"
    }
    assert numbers == {f"dense<{n}.000000e+00> : tensor<f32>" for n in (2, 7)}


def test_a_sort_whose_numbers_were_moved_out_of_its_comparator():
    def fn(x):
        return jnp.sort(x, axis=0), jnp.median(x, axis=0)

    shape = jax.ShapeDtypeStruct((6, 4), "float32")
    exported = jax.export.export(jax.jit(fn))(shape)
    program = partir.load(exported.mlir_module_serialized)
    tactic = partir.ManualPartition({program.arguments[0].name: 1}, axis="M")
    partitioned = partir.partition(program, {"M": 2}, [tactic])
    assert len(partitioned.verify().proved) == 2
    x = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    for made, wanted in zip(partitioned.compile()(x), fn(x), strict=True):
        np.testing.assert_allclose(made, wanted)
