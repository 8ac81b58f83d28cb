"""What users read when a mesh, devices, a call or a file is wrong."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import NamedSharding, P

import partir
from partir import FIRST_DIVISIBLE_DIM
from tests.refusals import (
    ARGS,
    BP,
    MESH,
    arrays,
    message,
    mlp,
    refusal,
    says,
)

# Meshes and devices


@pytest.mark.parametrize("mesh", [8, None, [("B", 4)], "B=4"])
def test_mesh_that_is_none(mesh: Any) -> None:
    assert message(lambda: partir.partition(mlp, mesh, [], args=ARGS)) == (
        'a mesh is a partir.Mesh, a mapping such as {"B": 4, "M": 2} or a '
        f"jax.sharding.Mesh; got {type(mesh).__name__}: {mesh!r}"
    )


@pytest.mark.parametrize("size", [0, -4, 4.0, True, "4", None])
def test_mesh_sizes(size: Any) -> None:
    assert message(lambda: partir.Mesh({"B": size})) == (
        f'mesh axis "B" has size {size!r}: it must be a whole number of at least 1'
    )


def test_mesh_names() -> None:
    assert message(lambda: partir.Mesh({"my axis": 4})) == (
        "mesh axis 'my axis' is not a name: use letters, digits and _"
    )
    assert message(lambda: partir.Mesh({})) == (
        "a mesh needs named axes with sizes, got {}; write for example "
        'partir.Mesh({"B": 4, "M": 2})'
    )


def test_devices_of_another_mesh() -> None:
    other = jax.make_mesh((8,), ("B",))
    told = message(lambda: partir.jit(mlp, MESH, [BP], devices=other)(*arrays()))
    assert "B=4,M=2" in told
    assert "{'B': 8}" in told or "B=8" in told
    assert "axes must be the same" in told


def test_more_devices_than_there_are() -> None:
    told = message(lambda: partir.jit(mlp, {"B": 4, "M": 4}, [BP])(*arrays()))
    assert told.startswith("mesh B=4,M=4 needs 16 devices, but there are 8 (cpu)")


ONE_DEVICE = """
import numpy as np, partir
rows = partir.ManualPartition({"x": 0}, axis="B")
double = partir.jit(lambda x: 2 * x, {"B": 4}, [rows])
try:
    double(np.ones(8))
except partir.PartitionError as error:
    print(error)
"""


def test_one_device() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    told = subprocess.run(
        [sys.executable, "-c", ONE_DEVICE],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "mesh B=4 needs 4 devices, but there are 1 (cpu)" in told
    assert 'jax.config.update("jax_num_cpu_devices", 4)' in told
    assert "XLA_FLAGS=--xla_force_host_platform_device_count=4" in told


# Arguments at the call


def test_committed_array_in_another_layout() -> None:
    params, x = arrays()
    mesh = jax.make_mesh((4, 2), ("B", "M"))
    placed = jax.device_put(x, NamedSharding(mesh, P(None, "M")))
    told = message(lambda: partir.jit(mlp, MESH, [BP])(params, placed))
    assert told.startswith("argument \"x\" lies on the devices as P(None, 'M')")
    assert "but the program wants P('B'" in told
    assert "Partitioned.shard" in told


def test_committed_array_on_one_device() -> None:
    params, x = arrays()
    placed = jax.device_put(x, jax.devices()[3])
    told = message(lambda: partir.jit(mlp, MESH, [BP])(params, placed))
    assert told.startswith('argument "x" lies on the devices as SingleDeviceSharding')
    assert "Partitioned.shard" in told


@pytest.fixture(scope="module")
def compiled() -> Any:
    return partir.partition(mlp, MESH, [BP], args=ARGS).compile()


def test_compiled_called_with_a_leaf_too_few(compiled: Any) -> None:
    params, x = arrays()
    told = message(lambda: compiled({"w1": params["w1"]}, x))
    assert 'without "params/w2"' in told
    assert "partition again for these arguments, or call partir.jit's function" in told


def test_compiled_called_with_a_leaf_too_many(compiled: Any) -> None:
    params, x = arrays()
    told = message(lambda: compiled({**params, "w3": x}, x))
    assert 'with "params/w3", which it doesn\'t know' in told


def test_compiled_called_with_another_shape_or_dtype(compiled: Any) -> None:
    params, x = arrays()
    told = message(lambda: compiled(params, x[:4]))
    assert 'argument "x" is float32[4,8]' in told
    assert "partitioned for float32[12,8]" in told
    assert 'argument "x" is int32[12,8]' in message(
        lambda: compiled(params, x.astype("int32"))
    )


def test_unhashable_static_argument() -> None:
    told = message(
        lambda: partir.partition(
            lambda x, sizes: x * sizes[0],
            MESH,
            [],
            args=(ARGS[1], [2]),
            static_argnames="sizes",
        )
    )
    assert told.startswith('static argument "sizes" is a list, which has no hash')
    assert "a tuple for a list" in told


def test_carry_that_names_an_unknown_tree() -> None:
    told = refusal(BP, carry={"out": "parms"})
    assert told.startswith('carry={"out": "parms"}: there is no argument "parms"')
    assert "params/w1" in told
    told = refusal(BP, carry={"out/7": "params"})
    assert told.startswith('carry={"out/7": "params"}: there is no result "out/7"')


def test_carry_that_is_no_mapping_of_names() -> None:
    for carry in (["out"], "out", {"out": 0}):
        told = refusal(BP, carry=carry)
        assert told.startswith("carry= says which argument each result succeeds")
        assert told.endswith(f'carry={{"out/0": "params"}}; got {carry!r}')


def test_carry_to_another_shape() -> None:
    told = message(
        lambda: partir.partition(
            lambda x: x.sum(0), MESH, [], args=(ARGS[1],), carry={"out": "x"}
        )
    )
    assert told == (
        'carry={"out": "x"}: result "out" is float32[8], but argument "x", which it is '
        "to succeed, is float32[12,8]"
    )


@pytest.mark.parametrize("devices", [3, "cpu", [1, 2]], ids=str)
def test_devices_that_are_none(devices: Any) -> None:
    step = partir.jit(lambda x: x, MESH, [], devices=devices)
    told = message(lambda: step(arrays()[1]))
    assert told.startswith("devices= takes jax devices, as in jax.devices()[:8]")
    assert told.endswith(f"got {devices!r}")


def test_devices_that_come_twice() -> None:
    devices = [*jax.devices()[:7], jax.devices()[0]]
    step = partir.jit(lambda x: x, MESH, [], devices=devices)
    told = message(lambda: step(arrays()[1]))
    assert told == f"devices= holds {jax.devices()[0]} more than once"


def test_nnx_module_passed_as_it_is() -> None:
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Linear(8, 8, rngs=nnx.Rngs(0))
    step = partir.jit(lambda model, x: model(x), MESH, [BP])
    told = message(lambda: step(model, jnp.ones((8, 8))))
    assert told.startswith('argument "model" holds a flax nnx Linear, which changes')
    assert "graphdef, state = nnx.split(model)" in told
    assert "nnx.update(model, state)" in told


# Files


FILES: dict[str, tuple[bytes, str]] = {
    "notes.txt": (
        b"module {\n  hello\n}\n",
        "not a StableHLO module: line 2, column 3: custom op 'hello' is unknown",
    ),
    "model.bin": (bytes(range(256)), "not a StableHLO module: neither MLIR text"),
    "notes.gz": (gzip.compress(b"hello"), "not a StableHLO module: line 1, column 1"),
    "cut.gz": (gzip.compress(b"hello")[:12], "not a gzipped StableHLO module"),
    "model.mlirbc": (b"ML\xefRabcdef", "not a StableHLO module: bytecode version"),
    "empty.mlir": (b"", "the module has no function to partition"),
}


@pytest.mark.parametrize("name", FILES)
def test_file_that_is_not_stablehlo(tmp_path: Path, name: str) -> None:
    data, told = FILES[name]
    path = tmp_path / name
    path.write_bytes(data)
    assert message(lambda: partir.load(path)).startswith(f"{path}: {told}")


def test_file_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    assert message(lambda: partir.load(path)) == (
        f"{path}: can't be read: No such file or directory"
    )


def test_shapes_that_are_not_known() -> None:
    text = "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n"
    text += "return %a : tensor<?xf32>\n}"
    assert "partir needs static shapes" in message(lambda: partir.load(text))


def test_source_of_a_wrong_kind() -> None:
    assert message(lambda: partir.load(3)) == (  # type: ignore[arg-type]
        "load takes a path, or a StableHLO module as text or bytes; got a int"
    )


# Things of other kinds


def test_partition_of_no_function() -> None:
    told = message(lambda: partir.partition("mlp", MESH, []))
    assert "function" in told
    assert "partir.load" in told


def test_first_divisible_never_complains() -> None:
    tactic = says({"**": FIRST_DIVISIBLE_DIM})
    partir.partition(mlp, MESH, [tactic], args=ARGS)
