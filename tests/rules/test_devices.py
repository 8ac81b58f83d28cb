"""Rules on virtual devices: ops inside loops over mesh axes, partitioned and run.

Many ops make one program, since compiling is what takes time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import partir
import tests.rules.samples  # noqa: F401
from partir.ir.attributes import CONSTRAINT
from partir.ir.core import Signature
from partir.rules.elementwise import FUSED, TIE
from partir.rules.nest import Nest, nest_of
from tests.rules.samples.sample import Sample, kinds, samples_of
from tests.rules.tiles import Local, compiled, describe, equal

pytestmark = pytest.mark.quick


MESH = partir.Mesh({"axis0": 2, "axis1": 4})
NESTS_PER_KIND = 3
PROGRAMS = 6
LEFT_OUT = {
    FUSED,  # in no program that is read
    TIE,  # no op
    CONSTRAINT,  # no op on a device
    "chlo.ragged_dot",  # CPUs have none
    "chlo.mulhi",  # jaxlib can't translate it on a mesh
    "chlo.broadcast_select",  # XLA then breaks the comparators of sorts
}


@dataclass(frozen=True)
class Case:
    """A sample and the loops to put it into."""

    sample: Sample
    nest: Nest


def fitting(nest: Nest, axes: Sequence[str]) -> Iterator[Nest]:
    """The nests over some of these axes, in this order, whose sizes fit."""
    for place, axis in enumerate(axes):
        for number, factor in enumerate(nest.factors):
            if factor.fits(MESH.axes[axis]):
                inner = nest.inside(axis, MESH.axes[axis], number)
                yield inner
                yield from fitting(inner, axes[place + 1 :])


def cases() -> list[Case]:
    """Some nests of each kind of op."""
    made = []
    for kind in sorted(kinds() - LEFT_OUT):
        found = {
            describe(nest): Case(sample, nest)
            for sample in samples_of(kind)
            if sample.runs
            for nest in fitting(nest_of(sample.signature), ["axis0", "axis1"])
        }
        rng = np.random.default_rng(zlib.crc32(kind.encode()))
        chosen = rng.permutation(len(found))[:NESTS_PER_KIND]
        made += [list(found.values())[i] for i in sorted(chosen)]
    return made


@dataclass(frozen=True)
class Choose:
    """Puts the ops of a program into their loops."""

    cases: Sequence[Case]
    name: str = "choose"

    def apply(self, partition: partir.Partition) -> None:
        program = partition.state.graph.program
        addresses: dict[Signature, list[str]] = {}
        for op in program.ops:
            address = program.addresses[op.results[0]]
            addresses.setdefault(op.signature, []).append(address)
        for case in self.cases:
            address = addresses[case.sample.signature].pop(0)
            nest = nest_of(case.sample.signature)
            for loop in case.nest.loops:
                number = nest.factors.index(loop.factor)
                partition.choose(address, number, loop.axis)
                nest = nest.inside(loop.axis, loop.size, number)


@pytest.fixture(scope="module")
def all_cases() -> list[Case]:
    import jax

    with jax.enable_x64(True):
        return cases()


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_ops_on_devices_are_as_on_one(
    number: int, all_cases: list[Case], x64: None
) -> None:
    own = all_cases[number::PROGRAMS]
    emitter = Local()
    wholes = [emitter.run(nest_of(c.sample.signature), c.sample.splats) for c in own]
    results = [result for made in wholes for result in made]
    text = emitter.module("ops", emitter.arguments, results)
    values = [np.asarray(value) for case in own for value in case.sample.values]
    want = compiled(text, [result.type for result in results])(values)
    # Numbers are compared, also of ops that the verifier has no equation for.
    record = partir.partition(partir.load(text), MESH, [Choose(own)], verify="off")
    got = [np.asarray(value) for value in record.compile()(*values)]
    names = [describe(c.nest) for c in own for _ in c.sample.signature.results]
    wrong = [
        f"{name}\nwhole:\n{whole}\ndevices:\n{tiles}"
        for name, whole, tiles in zip(names, want, got, strict=True)
        if not equal(whole, tiles)
    ]
    assert not wrong, "\n".join(wrong)
