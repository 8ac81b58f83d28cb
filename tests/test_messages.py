"""What users read when something is wrong: what, where, why, and what would work."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, NamedSharding, P

import partir
from partir import FIRST_DIVISIBLE_DIM, REPLICATED, ManualPartition

MESH = {"B": 4, "M": 2}
WISHES = "a dimension, partir.FIRST_DIVISIBLE_DIM, partir.REPLICATED or partir.UNKNOWN"


def mlp(params: dict[str, Array], x: Array) -> Array:
    return jnp.tanh(x @ params["w1"]) @ params["w2"]


LINE = mlp.__code__.co_firstlineno + 1
ARGS: Any = (
    {
        "w1": jax.ShapeDtypeStruct((8, 16), "float32"),
        "w2": jax.ShapeDtypeStruct((16, 6), "float32"),
    },
    jax.ShapeDtypeStruct((12, 8), "float32"),
)
BP = ManualPartition({"x": 0}, axis="B", name="BP")
MP = ManualPartition({"params/w1": 1}, axis="M", name="MP")


def arrays() -> tuple[dict[str, np.ndarray], np.ndarray]:
    return jax.tree.map(lambda s: np.ones(s.shape, s.dtype), ARGS)


def message(action: Callable[[], Any]) -> str:
    with pytest.raises(partir.PartitionError) as caught:
        action()
    return str(caught.value)


def refusal(*tactics: Any, **options: Any) -> str:
    """What partitioning the MLP with these tactics is answered."""
    return message(
        lambda: partir.partition(mlp, MESH, list(tactics), args=ARGS, **options)
    )


def says(wishes: Any, axis: str = "B", name: str = "T", **options: Any) -> Any:
    return ManualPartition(wishes, axis=axis, name=name, **options)


# Names and patterns


def test_pattern_that_matches_nothing() -> None:
    assert refusal(says({"param/*": 0})) == (
        'tactic "T": pattern "param/*" matches no argument or tag of mlp; nearest '
        "names: params/w1, params/w2. If it may match nothing, write "
        'partir.optional("param/*")'
    )


def test_result_named_among_the_inputs() -> None:
    assert 'It names a result: write outputs={"out": …}' in refusal(says({"out": 0}))


def test_output_that_matches_nothing() -> None:
    assert refusal(says({}, outputs={"out/3": 0})).startswith(
        'tactic "T": pattern "out/3" matches no result of mlp; nearest names: out.'
    )


def test_address_that_matches_nothing() -> None:
    assert refusal(says({"%mlp/dot/0": 0})).startswith(
        'tactic "T": pattern "%mlp/dot/0" matches no inner value of mlp; nearest '
        "names: %mlp/dot_general/0, %mlp/dot_general/1"
    )


def test_pattern_of_a_wrong_kind() -> None:
    assert message(lambda: says({0: 0})) == (
        "a pattern is text, a re.Pattern or partir.optional(...), got 0"
    )
    assert message(lambda: partir.optional(0)) == (  # type: ignore[arg-type]
        "optional() takes a pattern (text or re.Pattern), got 0"
    )


# Dimensions and axes


@pytest.mark.parametrize("dim", [2, -3])
def test_dimension_out_of_range(dim: int) -> None:
    assert refusal(says({"x": dim})) == (
        f'tactic "T": x is float32[12,8]: dimension {dim} is out of range; use 0 to 1'
    )


def test_dimension_of_a_scalar() -> None:
    tactic = says({"x": 0})
    assert message(
        lambda: partir.partition(lambda x: x, MESH, [tactic], args=(1.0,))
    ) == (
        'tactic "T": x is float32[]: dimension 0 is out of range; a scalar can\'t be '
        "tiled"
    )


def test_size_that_does_not_divide() -> None:
    assert refusal(says({"params/w2": 1})) == (
        'tactic "T": params/w2 is float32[16,6]: dimension 1 of size 6 does not divide '
        'over axis "B" of size 4; dimensions that do: 0; the next multiple of 4 is 8'
    )


def test_what_is_left_does_not_divide() -> None:
    assert refusal(BP, says({"x": 0}, axis="M")) == (
        'tactic "T": x is float32[12,8]: dimension 0 of size 12 (3 left inside B) does '
        'not divide over axis "M" of size 2; dimensions that do: 1; the next multiple '
        "of 8 is 16"
    )


def test_unknown_axis() -> None:
    assert refusal(says({"x": 0}, axis="C")) == (
        'tactic "T": mesh has no axis "C"; it has "B" of size 4, "M" of size 2'
    )


def test_axis_of_a_wrong_kind() -> None:
    assert message(lambda: says({"x": 0}, axis=0)) == (  # type: ignore[arg-type]
        "ManualPartition: axis is a mesh axis's name, got 0"
    )


# What is already decided


def test_another_dimension_than_the_one_decided() -> None:
    assert refusal(BP, says({"x": 1})) == (
        'tactic "T": x can\'t be tiled on dimension 1 over axis "B": it is already '
        'tiled on dimension 0 over it (by tactic "BP"). A later tactic never undoes an '
        'earlier one: say dimension 0 or nothing, or tile it in a tactic before "BP"'
    )


def test_another_dimension_than_the_one_propagated() -> None:
    assert refusal(MP, says({"params/w2": 1}, axis="M")) == (
        'tactic "T": params/w2 can\'t be tiled on dimension 1 over axis "M": it is '
        'already tiled on dimension 0 over it (by tactic "MP", propagated through '
        f"%mlp/dot_general/1 at {__file__}:{LINE}). A later tactic never undoes an "
        "earlier one: say dimension 0 or nothing, or tile it in a tactic before "
        '"MP"'
    )


def test_replicated_on_what_is_tiled() -> None:
    assert refusal(BP, says({"x": REPLICATED})) == (
        'tactic "T": x can\'t be kept whole on axis "B": it is already tiled on '
        'dimension 0 over it (by tactic "BP"). A later tactic never undoes an earlier '
        'one: keep it whole in a tactic before "BP", or, in a tactic of your own, '
        'gather it at its uses: atomic(…, at="uses")'
    )


def test_dimension_on_what_is_kept_whole() -> None:
    whole = ManualPartition({"x": REPLICATED}, axis="B", name="whole")
    assert refusal(whole, says({"x": 0})) == (
        'tactic "T": x can\'t be tiled on dimension 0 over axis "B": it is kept whole '
        'on that axis (by tactic "whole"). A later tactic never undoes an earlier one: '
        'tile it in a tactic before "whole"'
    )


# Wishes


@pytest.mark.parametrize("wish", ["0", (0,), None, True, 1.0])
def test_wish_of_a_wrong_kind(wish: Any) -> None:
    assert message(lambda: says({"x": wish})) == (
        f'tactic "T" says {wish!r} for "x": say {WISHES}'
    )


def test_callable_that_answers_wrongly() -> None:
    def rows(name: str, shape: tuple[int, ...], dtype: str) -> Any:
        return "rows"

    assert refusal(says({"x": rows})) == (
        f"tactic \"T\" says 'rows' for x (from rows): say {WISHES}"
    )


def test_callable_with_other_arguments() -> None:
    def rows(name: str) -> int:
        return 0

    told = refusal(says({"x": rows}))
    assert told.startswith(
        "tactic \"T\": rows('x', (12, 8), 'float32') raised TypeError: "
    )
    assert told.endswith(f"A callable takes (name, shape, dtype) and returns {WISHES}")


def test_callable_that_raises() -> None:
    def rows(name: str, shape: tuple[int, ...], dtype: str) -> int:
        return {"y": 0}[name]

    assert refusal(says({"x": rows})).startswith(
        "tactic \"T\": rows('x', (12, 8), 'float32') raised KeyError: 'x'."
    )


def test_inputs_of_a_wrong_kind() -> None:
    assert message(lambda: says(["x"])) == (
        "ManualPartition: inputs maps patterns to dimensions, for example "
        "{\"params/*/w1\": 1}; got ['x']"
    )


# Schedules


@pytest.mark.parametrize("element", ["BP", {"x": 0}, ManualPartition])
def test_schedule_element_that_is_no_tactic(element: Any) -> None:
    assert refusal(BP, element) == (
        f"schedule element 1 is {element!r}, which is no tactic: a tactic is an object "
        'with apply(partition), for example partir.ManualPartition({"x": 0}, axis="B")'
    )


def test_list_in_a_schedule() -> None:
    assert refusal([BP]) == (
        "schedule element 0 is a list: to nest schedules write partir.Schedule([...]), "
        "or join the lists"
    )


@pytest.mark.parametrize("schedule", ["BP", {"x": 0}, 3])
def test_schedule_that_is_none(schedule: Any) -> None:
    assert message(lambda: partir.partition(mlp, MESH, schedule, args=ARGS)) == (
        f"a schedule is a list of tactics, got {type(schedule).__name__}: {schedule!r}"
    )


class Own:
    """A tactic from a function."""

    def __init__(self, act: Callable[[partir.Partition], Any]) -> None:
        self.apply = act


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (
            lambda p: p.tile("y", 0, "B"),
            'no argument or tag matches "y"; nearest names: params/w1, params/w2, x',
        ),
        (
            lambda p: p.tile("x", "0", "B"),
            "x is float32[12,8]: a dimension is a whole number, got '0'",
        ),
        (
            lambda p: p.atomic("x", "B", at="use"),
            'atomic: at is "everywhere" or "uses", got \'use\'',
        ),
        (
            lambda p: p.choose("%mlp/dot_general/7", 0, "B"),
            'choose: "%mlp/dot_general/7" names no op, and exactly one is needed; '
            "nearest addresses: %mlp/dot_general/0, %mlp/dot_general/1, %mlp/tanh/0",
        ),
        (
            lambda p: p.choose("%mlp/dot_general/1", 1, "B"),
            '%mlp/dot_general/1 can\'t loop over factor 1 on axis "B" of size 4; '
            "factors that fit: 0, 2",
        ),
        (
            lambda p: p.propagate("C"),
            'mesh has no axis "C"; it has "B" of size 4, "M" of size 2',
        ),
    ],
    ids=["pattern", "dimension", "at", "address", "factor", "axis"],
)
def test_actions_of_own_tactics(act: Any, told: str) -> None:
    assert refusal(Own(act)) == f'tactic "Own": {told}'


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
