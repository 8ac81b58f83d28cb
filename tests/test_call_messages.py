"""What users read when a mesh, devices, a call or a file is wrong."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import NamedSharding, P

import partir
from partir import FIRST_DIVISIBLE_DIM
from partir.frontend.jax_private import known_platforms
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
from tests.versions import explicit

# Meshes and devices


@pytest.mark.parametrize("mesh", [8, None, [("B", 4)], "B=4"])
def test_mesh_that_is_none(mesh: Any) -> None:
    assert message(lambda: partir.partition(mlp, mesh, [], args=ARGS)) == (
        'a mesh is a partir.Mesh, a mapping such as {"B": 4, "M": 2} or a '
        f"jax.sharding.Mesh; got {type(mesh).__name__}: {mesh!r}"
    )


def test_mesh_and_schedule_the_wrong_way_round() -> None:
    told = message(lambda: partir.partition(mlp, [BP], MESH, args=ARGS))
    assert told.endswith("; the order is function, mesh, schedule")
    told = message(lambda: partir.partition(MESH, mlp, [BP], args=ARGS))
    assert told.endswith("; the order is function, mesh, schedule")


def test_abstract_mesh_has_no_devices_to_bring() -> None:
    mesh = jax.sharding.AbstractMesh((4, 2), ("B", "M"))
    assert partir.partition(mlp, mesh, [BP], args=ARGS).mesh.axes == MESH


def test_links_that_are_none() -> None:
    assert message(lambda: partir.Mesh(MESH, links="node")) == (  # type: ignore[arg-type]
        "links= says of mesh axes where they lie, got 'node'; write for example "
        'links={"B": "node"}'
    )


@pytest.mark.parametrize("size", [0, -4, 4.0, True, "4", None])
def test_mesh_sizes(size: Any) -> None:
    assert message(lambda: partir.Mesh({"B": size})) == (
        f'mesh axis "B" has size {size!r}: it must be a whole number of at least 1'
    )


def test_mesh_names() -> None:
    assert message(lambda: partir.Mesh({"my axis": 4})) == (
        "mesh axis 'my axis' is not a name: use ASCII letters, digits and _"
    )
    assert message(lambda: partir.Mesh({})) == (
        "a mesh needs named axes with sizes, got {}; write for example "
        'partir.Mesh({"B": 4, "M": 2})'
    )


def test_devices_of_another_mesh() -> None:
    other = explicit(B=8)
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


# Arguments of `partition` and `trace`


@pytest.mark.parametrize("more", [(ARGS[1],), (ARGS[1], 3), ([1],)], ids=len)
def test_arguments_one_by_one(more: Any) -> None:
    told = message(lambda: partir.partition(mlp, MESH, [BP], ARGS[0], *more))
    assert told.startswith(
        "partition takes a function's arguments together: write args=(params, x), not "
        "partition(fn, mesh, schedule, params, x); got "
    )


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (ARGS[1], "float32[12,8]"),
        (np.ones((2, 3)), "float32[2,3]"),
        (ARGS[0], "a dict; arguments by name go into kwargs="),
        (iter(ARGS), "a tuple_iterator"),
        ("x", "a str"),
    ],
    ids=["shape", "array", "dict", "iterator", "text"],
)
def test_args_that_are_no_tuple(args: Any, shown: str) -> None:
    assert message(lambda: partir.partition(mlp, MESH, [BP], args=args)) == (
        "partition: args= is a tuple of all arguments, also of a single one: write "
        f"args=(x,); got {shown}"
    )


CALLS: list[Any] = [
    lambda args, kwargs: partir.partition(mlp, MESH, [BP], args, kwargs),
    lambda args, kwargs: partir.jit(mlp, MESH, [BP])(*args, **kwargs),
    lambda args, kwargs: partir.trace(mlp, *args, **kwargs),
    lambda args, kwargs: partir.trace(jax.checkpoint(mlp), *args, **kwargs),
]


@pytest.mark.parametrize("call", CALLS, ids=["partition", "jit", "trace", "wrapped"])
def test_arguments_that_the_function_does_not_take(call: Any) -> None:
    params, x = arrays()
    takes = "It takes (params, x) and was given"
    assert message(lambda: call((), {})) == (
        "mlp can't be called like this: missing a required argument: 'params'. "
        f"{takes} nothing (partition takes arrays or shapes as args=(params, x))"
    )
    assert message(lambda: call((params,), {})) == (
        "mlp can't be called like this: missing a required argument: 'x'. "
        f"{takes} 1 by position"
    )
    assert message(lambda: call((params, x), {"z": x})) == (
        "mlp can't be called like this: got an unexpected keyword argument 'z'. "
        f"{takes} 2 by position and z by name"
    )


def test_value_that_is_only_known_at_run_time() -> None:
    def positive(params: Any, x: Any) -> Any:
        return x if x.sum() + params["w1"].sum() > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        partir.partition(positive, MESH, [BP], args=ARGS)
    first = positive.__code__.co_firstlineno
    assert f"tracing the function positive at {__file__}:{first}" in str(caught.value)
    assert "the values of the arguments params/w1 and x" in str(caught.value)


def test_what_is_no_function() -> None:
    assert message(lambda: partir.trace(3)) == (  # type: ignore[arg-type]
        "trace takes a function, got 3"
    )
    known = ", ".join(sorted(known_platforms()))
    assert {"cpu", "cuda", "rocm", "tpu"} <= known_platforms()
    assert message(lambda: partir.trace_for("gpu", mlp)) == (
        f"trace_for takes a platform and a function; a platform is one of {known}, got "
        "'gpu'"
    )


@pytest.mark.parametrize("what", ["static", "donate"])
def test_positions_and_names(what: str) -> None:
    assert refusal(BP, **{f"{what}_argnums": "x"}) == (
        f"{what}_argnums takes positions of arguments, as 1 or (0, 1), got 'x'; names "
        f"go into {what}_argnames"
    )
    assert refusal(BP, **{f"{what}_argnames": (0, "x")}) == (
        f'{what}_argnames takes names of arguments, as "x" or ("x", "y"), got '
        f"(0, 'x'); positions go into {what}_argnums"
    )


def test_compiler_options_that_are_no_mapping() -> None:
    assert refusal(BP, compiler_options="xla_dump_to").endswith("got 'xla_dump_to'")


# Arguments at the call


def test_committed_array_in_another_layout() -> None:
    params, x = arrays()
    mesh = explicit(B=4, M=2)
    placed = jax.device_put(x, NamedSharding(mesh, P(None, "M")))
    told = message(lambda: partir.jit(mlp, MESH, [BP])(params, placed))
    assert told.startswith("argument \"x\" is sharded as P(None, 'M')")
    assert "but the program wants P('B'" in told
    assert "Partitioned.shard" in told


def test_committed_array_on_one_device() -> None:
    params, x = arrays()
    placed = jax.device_put(x, jax.devices()[3])
    told = message(lambda: partir.jit(mlp, MESH, [BP])(params, placed))
    assert told.startswith('argument "x" is sharded as SingleDeviceSharding')
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


def test_leaf_that_may_change() -> None:
    def scaled(x: Any, options: Any) -> Any:
        return x * len(options["names"])

    x, options = np.ones(8, "float32"), {"names": {"a", "b"}}
    told = message(lambda: partir.partition(scaled, MESH, [], args=(x, options)))
    assert told == (
        'argument "options/names" is a set, neither an array nor hashable: it may '
        "change, and programs that were traced with it would not. Pass arrays in its "
        "place, register its class as a pytree, or make it hashable (a frozen "
        "dataclass, a tuple, a frozenset)"
    )
    assert message(lambda: partir.jit(scaled, MESH, [])(x, options)) == told
    options["names"] = frozenset("ab")
    assert partir.jit(scaled, MESH, [])(x, options)[0] == 2


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


def test_several_nnx_modules() -> None:
    nnx = pytest.importorskip("flax.nnx")
    model, other = (nnx.Linear(8, 8, rngs=nnx.Rngs(n)) for n in range(2))
    step = partir.jit(lambda models, other, x: x, MESH, [])
    told = message(lambda: step((model, model), other, jnp.ones((8, 8))))
    assert told.startswith(
        "arguments hold flax nnx objects (models/0: Linear, models/1: Linear, other: "
        "Linear), which change in place"
    )
    assert "graphdef, state = nnx.split((models, other))" in told
    assert "    models, other = nnx.merge(graphdef, state)" in told


def test_array_that_is_donated_and_comes_twice() -> None:
    step = partir.jit(lambda x, y: (x + y, y), MESH, [], donate_argnums=0)
    x = step.partitioned(jnp.ones(8), jnp.ones(8)).shard(np.ones(8, "f"))
    for _ in ("cold", "warm"):
        assert message(lambda: step(x, x)) == (
            'arguments "x" and "y" are one and the same array, which is donated: its '
            "memory can be given away only once. Copy one of them, jnp.copy(...), or "
            "don't donate"
        )
        step(step.partitioned(x, x).shard(np.ones(8, "f")), x)


# Values that are not finite


def logarithm(x: Any) -> Any:
    return 2 * jnp.log(x)


NOT_FINITE = "logarithm, partitioned, gave a value that is not finite (Invalid value"


def test_nan_names_the_op_and_its_line() -> None:
    step = partir.jit(logarithm, MESH, [says({"x": 0})], donate_argnums=0)
    line = f"{__file__}:{logarithm.__code__.co_firstlineno + 1}"
    with jax.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        step(-jnp.ones(8))
    assert isinstance(caught.value, partir.PartirError)
    assert str(caught.value).startswith(NOT_FINITE)
    assert str(caught.value).endswith(
        "Run op by op without partitioning: invalid value (nan) encountered in log at "
        f"{line}"
    )


def test_nan_in_a_program_without_its_function() -> None:
    program = partir.trace(logarithm, jnp.ones(8))
    step = partir.partition(program, MESH, [says({"x": 0})]).compile()
    with jax.debug_nans(True), pytest.raises(partir.PartirError) as caught:
        step(-jnp.ones(8))
    assert str(caught.value).startswith(NOT_FINITE)
    assert "partition the function instead of its lowered module" in str(caught.value)


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
    "declared.mlir": (
        b"func.func private @main(%a: tensor<4xf32>) -> tensor<4xf32>",
        "@main is declared and has no body to partition",
    ),
    "empty.mlir": (b"", "the module has no function to partition"),
}


@pytest.mark.parametrize("name", FILES)
def test_file_that_is_not_stablehlo(tmp_path: Path, name: str) -> None:
    data, told = FILES[name]
    path = tmp_path / name
    path.write_bytes(data)
    assert message(lambda: partir.load(path)).startswith(f"{path}: {told}")


def test_an_empty_file_is_the_first_one_read(tmp_path: Path) -> None:
    """A thread that has read nothing yet has nothing to read in either."""
    path = tmp_path / "empty.mlir"
    path.write_bytes(b"")
    with ThreadPoolExecutor(1) as fresh:
        said = fresh.submit(message, lambda: partir.load(path)).result()
    assert said.startswith(f"{path}: {FILES['empty.mlir'][1]}")


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
