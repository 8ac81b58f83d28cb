"""What modules mean: the interpreter's gaps, and collectives in lockstep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import partir
from partir.fuzz.judging.compare import tiles
from partir.fuzz.meaning.evaluate import compiled, evaluate, exactly, is_interpreted
from partir.fuzz.meaning.lockstep import lockstep
from partir.fuzz.programs.inputs import drawn
from partir.ir.types import tensor

DTYPES = (
    "i1 i4 ui4 i8 ui8 i16 ui16 i32 ui32 i64 ui64 bf16 f16 f32 f64 f8E4M3FN "
    "complex<f32> complex<f64>"
).split()


def _main(types: str, result: str, body: str) -> str:
    heads = ", ".join(f"%a{i}: tensor<{t}>" for i, t in enumerate(types.split()))
    return f"func.func @main({heads}) -> tensor<{result}> {{\n{body}\n}}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_go_in_and_out_unchanged(dtype: str) -> None:
    text = _main(f"3x4x{dtype}", f"3x4x{dtype}", f"return %a0 : tensor<3x4x{dtype}>")
    for holds in ("full", "wild"):
        array = drawn(tensor((3, 4), dtype), holds, np.random.default_rng(0))
        (made,) = evaluate(text, [array])
        np.testing.assert_array_equal(made, exactly(array))
        assert made.dtype.kind in "biufc"


SAFE = {
    "features before the batch": (
        "2x4x3xf64 3x3x2xf64",
        "2x2x2xf64",
        """%0 = stablehlo.convolution(%a0, %a1)
             dim_numbers = [b, 0, f]x[0, i, o]->[f, 0, b], window = {stride = [1]}
             {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
             : (tensor<2x4x3xf64>, tensor<3x3x2xf64>) -> tensor<2x2x2xf64>
           return %0 : tensor<2x2x2xf64>""",
    ),
    "a scatter does not write into its operand": (
        "4xf64 3x1xi32 3xf64",
        "4xf64",
        """%0 = "stablehlo.scatter"(%a0, %a1, %a2) ({
             ^bb0(%x: tensor<f64>, %y: tensor<f64>):
               %z = stablehlo.add %x, %y : tensor<f64>
               stablehlo.return %z : tensor<f64>
           }) {scatter_dimension_numbers = #stablehlo.scatter<
               inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
               index_vector_dim = 1>}
             : (tensor<4xf64>, tensor<3x1xi32>, tensor<3xf64>) -> tensor<4xf64>
           %1 = stablehlo.subtract %0, %a0 : tensor<4xf64>
           return %1 : tensor<4xf64>""",
    ),
    "large unsigned indices": (
        "4xf64 5x1xui8",
        "5xf64",
        """%0 = "stablehlo.gather"(%a0, %a1) {dimension_numbers = #stablehlo.gather<
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
             slice_sizes = array<i64: 1>}
             : (tensor<4xf64>, tensor<5x1xui8>) -> tensor<5xf64>
           return %0 : tensor<5xf64>""",
    ),
    "a scatter leaves out windows over the edge": (
        "4x5xf64 6x2xi8 6x2x3xf64",
        "4x5xf64",
        """%0 = "stablehlo.scatter"(%a0, %a1, %a2) ({
             ^bb0(%x: tensor<f64>, %y: tensor<f64>):
               %z = stablehlo.add %x, %y : tensor<f64>
               stablehlo.return %z : tensor<f64>
           }) {scatter_dimension_numbers = #stablehlo.scatter<
               update_window_dims = [1, 2], scatter_dims_to_operand_dims = [1, 0],
               index_vector_dim = 1>}
             : (tensor<4x5xf64>, tensor<6x2xi8>, tensor<6x2x3xf64>) -> tensor<4x5xf64>
           return %0 : tensor<4x5xf64>""",
    ),
    "a product of nothing": (
        "4x0xcomplex<f64> 0x3xcomplex<f64>",
        "4x3xcomplex<f64>",
        """%0 = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0]
             : (tensor<4x0xcomplex<f64>>, tensor<0x3xcomplex<f64>>)
             -> tensor<4x3xcomplex<f64>>
           return %0 : tensor<4x3xcomplex<f64>>""",
    ),
}


@pytest.mark.parametrize("whole", ["index", "small"])
@pytest.mark.parametrize("name", SAFE)
def test_interpreter_agrees_with_xla(name: str, whole: str) -> None:
    types, result, body = SAFE[name]
    text = _main(types, result, body)
    rng = np.random.default_rng(0)
    args = []
    for spelled in types.split():
        *sizes, dtype = spelled.split("x", spelled.count("x") - ("complex" in spelled))
        type_ = tensor(tuple(map(int, sizes)), dtype)
        args.append(drawn(type_, "whole" if "f" in dtype else whole, rng))
    assert is_interpreted(text)
    np.testing.assert_array_equal(evaluate(text, args)[0], compiled(text, args)[0])


WINDOWS = {
    "padding": "padding = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>",
    "spread": "base_dilations = array<i64: 2, 1>, "
    "padding = dense<[[-2, 0], [0, 1]]> : tensor<2x2xi64>",
}


@pytest.mark.parametrize("spelled", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("add", "i32"), ("multiply", "i32"), ("maximum", "f32"), ("add", "complex<f32>")],
)
def test_windows_leave_padding_out_as_xla_does(
    kind: str, dtype: str, spelled: str
) -> None:
    """The start counts once in each window, whatever of the window is padding."""
    body = f"""%0 = "stablehlo.reduce_window"(%a0, %a1) ({{
         ^bb0(%x: tensor<{dtype}>, %y: tensor<{dtype}>):
           %z = stablehlo.{kind} %y, %x : tensor<{dtype}>
           stablehlo.return %z : tensor<{dtype}>
       }}) {{window_dimensions = array<i64: 2, 2>, {spelled}}}
         : (tensor<4x3x{dtype}>, tensor<{dtype}>) -> tensor<4x3x{dtype}>
       return %0 : tensor<4x3x{dtype}>"""
    text = _main(f"4x3x{dtype} {dtype}", f"4x3x{dtype}", body)
    kinds = {"i32": np.int32, "f32": np.float32, "complex<f32>": np.complex64}
    numbers = np.arange(1, 13).reshape(4, 3).astype(kinds[dtype])
    args = [numbers, np.asarray(5, numbers.dtype)]
    np.testing.assert_array_equal(evaluate(text, args)[0], compiled(text, args)[0])


@pytest.mark.needs_jax("0.9", "StableHLO's interpreter had no fft")
def test_transforms_of_single_precision() -> None:
    kind = "tensor<3x4xcomplex<f32>>"
    body = f"""%0 = stablehlo.fft %a0, type = FFT, length = [4] : ({kind}) -> {kind}
      return %0 : {kind}"""
    text = _main("3x4xcomplex<f32>", "3x4xcomplex<f32>", body)
    x = np.arange(12).reshape(3, 4).astype(np.complex64)
    np.testing.assert_allclose(evaluate(text, [x])[0], np.fft.fft(x), atol=1e-5)


def test_integers_are_divided_by_one_instead_of_zero() -> None:
    body = "%0 = stablehlo.divide %a0, %a1 : tensor<3xi8>\nreturn %0 : tensor<3xi8>"
    args = [np.array([-128, 7, 7], np.int8), np.array([-1, 0, 2], np.int8)]
    (made,) = evaluate(_main("3xi8 3xi8", "3xi8", body), args)
    np.testing.assert_array_equal(made, np.array([-128, 7, 3], np.int8))


def test_what_the_interpreter_does_not_know_is_compiled() -> None:
    body = (
        "%0 = chlo.erf %a0 : tensor<3xf64> -> tensor<3xf64>\nreturn %0 : tensor<3xf64>"
    )
    text = _main("3xf64", "3xf64", body)
    assert not is_interpreted(text)
    (made,) = evaluate(text, [np.array([-np.inf, 0, np.inf])])
    np.testing.assert_array_equal(made, [-1, 0, 1])


# Lockstep: every kind of collective, over groups that are not next to each other

X = np.arange(8 * 6 * 4).reshape(8, 6, 4).astype(np.float64)
GROUPS = "dense<[[0, 2, 4], [1, 3, 5]]> : tensor<2x3xi64>"
PEERS = {0: (0, 2, 4), 1: (1, 3, 5)}


def _on_devices(op: str, shape: str) -> list[np.ndarray]:
    """An op on device d of six, which holds X + d."""
    channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
    body = op.format(groups=f"replica_groups = {GROUPS}, {channel}", channel=channel)
    body += f"\nreturn %0 : tensor<{shape}xf64>"
    module = lockstep(_main("8x6x4xf64", f"{shape}xf64", body), 6)
    return evaluate(module, [X + device for device in range(6)])


SUM = """({
  ^bb0(%x: tensor<f64>, %y: tensor<f64>):
    %z = stablehlo.add %x, %y : tensor<f64>
    stablehlo.return %z : tensor<f64> })"""
IN = "(tensor<8x6x4xf64>) ->"


def test_all_gather() -> None:
    made = _on_devices(
        _braced("all_gather", "all_gather_dim = 2 : i64", "8x6x12"), "8x6x12"
    )
    for device, got in enumerate(made):
        peers = PEERS[device % 2]
        np.testing.assert_array_equal(got, np.concatenate([X + p for p in peers], 2))


def _braced(kind: str, attrs: str, shape: str, region: str = "") -> str:
    region = region.replace("{", "{{").replace("}", "}}")
    return (
        f'%0 = "stablehlo.{kind}"(%a0) {region} {{{{{attrs}, {{groups}}}}}} '
        f": {IN} tensor<{shape}xf64>"
    )


def test_all_reduce() -> None:
    made = _on_devices(
        _braced("all_reduce", "use_global_device_ids", "8x6x4", SUM), "8x6x4"
    )
    for device, got in enumerate(made):
        np.testing.assert_array_equal(got, sum(X + p for p in PEERS[device % 2]))


def test_reduce_scatter() -> None:
    op = _braced("reduce_scatter", "scatter_dimension = 1 : i64", "8x2x4", SUM)
    for device, got in enumerate(_on_devices(op, "8x2x4")):
        peers = PEERS[device % 2]
        whole = sum(X + p for p in peers)
        place = peers.index(device)
        np.testing.assert_array_equal(got, whole[:, 2 * place : 2 * place + 2])


def test_all_to_all() -> None:
    attrs = (
        "split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 3 : i64"
    )
    for device, got in enumerate(
        _on_devices(_braced("all_to_all", attrs, "24x2x4"), "24x2x4")
    ):
        peers = PEERS[device % 2]
        place = slice(2 * peers.index(device), 2 * peers.index(device) + 2)
        np.testing.assert_array_equal(
            got, np.concatenate([X[:, place] + p for p in peers])
        )


def test_permute_leaves_zeros_where_nothing_is_sent() -> None:
    op = (
        '%0 = "stablehlo.collective_permute"(%a0) {{source_target_pairs = '
        "dense<[[0, 1], [1, 5]]> : tensor<2x2xi64>, {channel}}} : "
        f"{IN} tensor<8x6x4xf64>"
    )
    made = _on_devices(op, "8x6x4")
    want: dict[int, Any] = {1: X, 5: X + 1}
    for device, got in enumerate(made):
        np.testing.assert_array_equal(got, want.get(device, 0 * X))


def test_loops_and_branches_of_all_devices() -> None:
    body = """
      %n = stablehlo.constant dense<3> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %id = stablehlo.partition_id : tensor<ui32>
      %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f64>
      %r:2 = stablehlo.while(%c = %n, %x = %a0) : tensor<i32>, tensor<f64>
        cond {
          %z = stablehlo.constant dense<0> : tensor<i32>
          %p = stablehlo.compare GT, %c, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %y = stablehlo.add %x, %f : tensor<f64>
          %m = stablehlo.subtract %c, %one : tensor<i32>
          stablehlo.return %m, %y : tensor<i32>, tensor<f64>
        }
      %0 = "stablehlo.case"(%one) ({
          stablehlo.return %a0 : tensor<f64>
        }, {
          stablehlo.return %r#1 : tensor<f64>
        }) : (tensor<i32>) -> tensor<f64>
      return %0 : tensor<f64>"""
    module = lockstep(_main("f64", "f64", body), 3)
    made = evaluate(module, [np.float64(10 * device) for device in range(3)])
    assert [float(number) for number in made] == [0, 13, 26]


def test_tiles_are_those_of_each_device() -> None:
    mesh = partir.Mesh({"A": 2, "B": 2})
    parts = list(tiles(np.arange(8), (("B", "A"),), mesh))
    assert [part.tolist() for part in parts] == [[0, 1], [4, 5], [2, 3], [6, 7]]


def test_a_module_is_compiled_for_the_types_that_it_takes() -> None:
    """Four-bit integers are held in eight, which XLA would take for other types."""
    text = """func.func public @main(%x: tensor<3xui4>) -> tensor<3xi32> {
      %r = stablehlo.convert %x : (tensor<3xui4>) -> tensor<3xi32>
      return %r : tensor<3xi32>
    }"""
    (made,) = compiled(text, [np.array([1, 2, 15], np.int8)])
    assert made.tolist() == [1, 2, 15]
