"""Fusion policies: in files, in messages, and in caches."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import partir
from partir.rules.traits import Role
from partir.simulate.device.catalogue import _SPECS
from partir.simulate.device.fusion_policy import (
    POLICIES,
    XLA,
    XLA_CPU,
    FusionPolicy,
    policy_from_data,
)
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.device.spec_files import load_spec

OWN = FusionPolicy(
    name="own",
    recomputed=frozenset((Role.CHEAP, Role.COSTLY)),
    most_kernels=3,
    roles=(("stablehlo.tanh", Role.CHEAP),),
    narrow_roles=(("stablehlo.tanh", Role.COSTLY),),
)


@pytest.mark.parametrize("spec", _SPECS, ids=lambda spec: spec.name)
def test_built_in_devices_have_the_policy_of_their_compiler(spec: DeviceSpec) -> None:
    prefix = {"torus": "xla_tpu", "switch": "xla_gpu", "shared": "xla_cpu"}
    assert spec.fusion is POLICIES[prefix[spec.topology]]
    assert spec.as_data()["fusion"] == spec.fusion.name


def test_files_have_a_policy_of_the_users_own(tmp_path: Path) -> None:
    spec = replace(partir.devices["h100"], fusion=OWN)
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml())
    assert load_spec(path) == spec
    assert load_spec(path).fusion == OWN


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("xla_gp", r'here: no fusion policy "xla_gp"; nearest: .*xla_gpu'),
        (
            {"most_kernel": 1},
            'no field of a fusion policy "most_kernel"; nearest: .*most_kernels',
        ),
        ({"fused": ["cheep"]}, 'no role "cheep"; nearest: cheap'),
        ({"roles": {"stablehlo.add": "costy"}}, "nearest: costly"),
        ({"most_kernels": -1}, "most_kernels must be a whole number of at least 0"),
        ({"most_operands": 1.5}, "most_operands must be a whole number"),
    ],
)
def test_mistakes_in_files(data: Any, message: str) -> None:
    with pytest.raises(partir.PartitionError, match=message):
        policy_from_data(data, "here")


def test_a_spec_takes_no_name_for_a_policy() -> None:
    with pytest.raises(partir.PartitionError, match="fusion must be a FusionPolicy"):
        replace(partir.devices["cpu"], fusion="xla_cpu")  # type: ignore[arg-type]


def test_caches_tell_policies_apart_by_what_they_do() -> None:
    assert replace(XLA, name="another").key == XLA.key != XLA_CPU.key
    assert pickle.loads(pickle.dumps(OWN)) == OWN
    assert pickle.loads(pickle.dumps(OWN)).key == OWN.key
    changes: dict[str, Any] = {
        "fused": frozenset((Role.CHEAP,)),
        "recomputed": frozenset(),
        "most_kernels": 9,
        "most_operands": 9,
        "shared_with_reductions": True,
        "repeats_in_reductions": False,
        "wide_products": True,
        "rounds_once": True,
        "writes_views": True,
        "computes_again": True,
        "merges_equal": True,
        "scatters_into_sums": True,
        "into_products": True,
        "keeps_sources": True,
        "prefers_sources": True,
        "narrow_products": True,
        "in_place": True,
        "into_stacks": True,
        "unrolled_trips": 9,
        "roles": (("stablehlo.tanh", Role.CHEAP),),
        "narrow_roles": (("stablehlo.tanh", Role.CHEAP),),
    }
    assert changes.keys() == {f.name for f in fields(XLA)} - {"name", "key"}
    changed = [replace(XLA, **{name: value}) for name, value in changes.items()]
    assert len({policy.key for policy in (XLA, *changed)}) == len(changes) + 1
