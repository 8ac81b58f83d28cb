"""Export policies: what programs are tied by, in files, in messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import partir
from partir.simulate.device.catalogue import _SPECS
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.device.spec_files import load_spec
from partir.spmd.export_policy import (
    PLAIN,
    POLICIES,
    XLA_CPU,
    XLA_TPU,
    ExportPolicy,
    export_policy_from_data,
    policy_of,
)
from partir.spmd.preparations.prepare import has_ties, prepared
from partir.spmd.program import SpmdProgram
from partir.spmd.rewrites.sweep import collectives_of
from partir.spmd.rewrites.table import rewrite
from partir.spmd.stablehlo.export import stablehlo_text
from tests.spmd.lowered import M2, W, X, lowered


@pytest.fixture
def tied(x64: None) -> SpmdProgram:
    return twice(jnp.tanh)


def twice(first: Callable[[Array], Array]) -> SpmdProgram:
    """A weight that is gathered twice, each time for a product."""

    def chain(x: Array, w: Array) -> Array:
        return jnp.tanh(first(x) @ w) @ w

    tactics = [("M", {"w": 0})]
    case = lowered(chain, X, W, axes=M2, tactics=tactics, gathered={"w": "M"})
    return rewrite(case.spmd)


def waits(program: SpmdProgram) -> Sequence[bool]:
    return [op.after >= 0 for op in collectives_of(program.body.ops)]


def test_first_gathers_are_tied_as_the_policy_says(tied: SpmdProgram) -> None:
    later = replace(PLAIN, ties_first=False)
    assert waits(tied) == [True, True]
    assert prepared(tied, XLA_CPU) is tied
    assert waits(prepared(tied, later)) == [False, True]
    assert has_ties(prepared(tied, later))


@pytest.mark.parametrize(("rows", "first"), [(2, True), (16, False)])
def test_first_gathers_wait_for_what_is_small_beside_them(
    rows: int, first: bool, x64: None
) -> None:
    def chain(x: Array, w: Array) -> Array:
        return jnp.tanh(jnp.sin(x) @ w) @ w

    case = lowered(
        chain,
        np.ones((rows, 64)),
        np.ones((64, 64)),
        axes=M2,
        tactics=[("M", {"w": 0})],
        gathered={"w": "M"},
    )
    policy = replace(PLAIN, ties_first=False, ties_large=True)
    assert waits(prepared(rewrite(case.spmd), policy)) == [first, True]


def test_gathers_for_look_ups_do_not_wait(x64: None) -> None:
    def looked_up(w: Array, ids: Array) -> Array:
        return w[ids + 1] @ w

    table, ids = np.ones((64, 64)), np.zeros(4, np.int32)
    tactics = [("M", {"w": 0})]
    gathered = {"w": "M"}
    case = lowered(looked_up, table, ids, axes=M2, tactics=tactics, gathered=gathered)
    policy = replace(PLAIN, ties_first=False, ties_large=True)
    assert not waits(prepared(rewrite(case.spmd), policy))[0]


def test_one_of_two_gathers_stays_tied_if_the_first_waits_for_nothing(
    x64: None,
) -> None:
    program = twice(lambda x: x)  # an argument is there anyway
    assert waits(program) == [False, True]
    assert waits(prepared(program, XLA_TPU)) == [False, True]


def test_readers_read_through_the_barrier_as_the_policy_says(
    tied: SpmdProgram,
) -> None:
    texts = [stablehlo_text(tied, policy) for policy in (PLAIN, XLA_CPU)]
    for text, through in zip(texts, (False, True), strict=True):
        barrier = [s for s in text.splitlines() if "optimization_barrier" in s][-1]
        results = barrier.split(" = ")[0].strip()
        name = results.split(":")[0] if ":" in results else results.split(",")[0]
        products = [s for s in text.splitlines() if "dot_general" in s]
        assert (f"{name}#1" in products[-1]) is through


@pytest.mark.parametrize("spec", _SPECS, ids=lambda spec: spec.name)
def test_built_in_devices_have_the_policy_of_their_compiler(spec: DeviceSpec) -> None:
    platform = {"torus": "tpu", "switch": "gpu", "shared": "cpu"}[spec.topology]
    assert spec.export is policy_of(platform) is POLICIES[f"xla_{platform}"]
    assert spec.as_data()["export"] == spec.export.name


def test_platforms_that_are_not_known_get_a_plain_program() -> None:
    assert policy_of("abacus") is PLAIN


def test_files_have_a_policy_of_the_users_own(tmp_path: Path) -> None:
    own = ExportPolicy(name="own", ties_first=False, reads_through=True)
    spec = replace(partir.devices["h100"], export=own)
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml())
    assert load_spec(path) == spec


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("xla_tp", r'here: no export policy "xla_tp"; nearest: .*xla_tpu'),
        (
            {"tie_first": True},
            'no field of an export policy "tie_first"; nearest: .*ties_first',
        ),
        ({"ties_first": 1}, 'policy "": ties_first must be true or false, got 1'),
    ],
)
def test_mistakes_in_files(data: Any, message: str) -> None:
    with pytest.raises(partir.PartitionError, match=message):
        export_policy_from_data(data, "here")


def test_a_spec_takes_no_name_for_a_policy() -> None:
    with pytest.raises(partir.PartitionError, match="export must be an ExportPolicy"):
        replace(partir.devices["cpu"], export="xla_cpu")  # type: ignore[arg-type]


def test_what_is_shown_is_for_the_device_that_was_said() -> None:
    def chain(x: Array, w: Array) -> Array:
        return jnp.tanh(jnp.tanh(jnp.tanh(x) @ w) @ w) @ w

    x = jnp.ones((8, 8))
    tactics = [
        partir.ManualPartition({"x": 0}, axis="B", name="BP"),
        partir.ManualPartition({"w": 0}, axis="B", name="Z3"),
        partir.Gathered({"w": "again"}, axis="B"),
    ]
    counts = {
        device: partir.partition(chain, {"B": 8}, tactics, args=(x, x), device=device)
        .stablehlo()
        .count("optimization_barrier")
        for device in ("cpu", "tpu_v5e")
    }
    assert counts == {"cpu": 3, "tpu_v5e": 2}
    assert XLA_TPU.ties_first is False
