"""A case: a program, a mesh, a schedule, inputs; and all that must agree about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import jax
import numpy as np

from partir.api.jit import partition
from partir.api.partitioned import Partitioned
from partir.frontend.load import load
from partir.fuzz.edit import source_text
from partir.fuzz.judging.compare import Wrong, allowed, require_equal, tiles
from partir.fuzz.judging.trust import Level, Trust, trust_of
from partir.fuzz.judging.widened import widened
from partir.fuzz.meaning.evaluate import compiled, evaluate, exactly, is_interpreted
from partir.fuzz.meaning.lockstep import lockstep
from partir.fuzz.programs.inputs import inputs
from partir.ir.core import Port, Program
from partir.mesh import Mesh
from partir.partition.actions import Action
from partir.partition.check import check
from partir.spmd.stablehlo.sequential import sequential_text
from partir.tactics.recorded import recorded_schedule
from partir.verify import Proof

_OF_THE_PROGRAM = "program args can_run expected values trusts limits".split()
_RUNS = ("spmd", "devices")  # stages that run the module which is proved

Tactics = tuple[tuple[str, tuple[Action, ...]], ...]
"""A schedule as the actions that each tactic takes."""


@dataclass(frozen=True)
class Case:
    """What is tried; inputs are drawn by `seed`, of kinds that `holds` says."""

    text: str
    mesh: Mesh
    schedule: Tactics
    holds: tuple[str, ...]
    seed: int
    carry: tuple[tuple[int, int], ...] = ()  # results and the arguments they succeed

    def carried(self, program: Program) -> dict[str, str] | None:
        """What is carried from call to call, by name."""
        outs, ins = program.results, program.arguments
        return {outs[r].name: ins[a].name for r, a in self.carry} or None


@dataclass(frozen=True)
class Failure:
    """What went wrong, and at which stage."""

    stage: str
    what: str

    def __str__(self) -> str:
        """The stage, then the rest."""
        return f"{self.stage}: {self.what}"


class Trial:
    """One run of a case; each thing is computed once.

    The stages, each held against what the source gives: the program as it was read; the
    partition's tables; Core, loop by loop; the device-local module, all devices in
    lockstep; and, `on_devices`, that module compiled and run by XLA. The verifier must
    agree with them: it may disprove nothing that is right, and prove nothing wrong.
    """

    def __init__(self, case: Case, on_devices: bool = False) -> None:
        """Nothing is run yet."""
        self.case, self.on_devices = case, on_devices

    def again(self, case: Case, on_devices: bool = False) -> Trial:
        """Another schedule of the same program: what is known of it stays."""
        made = Trial(case, on_devices)
        for name in (
            "program",
            "args",
            "can_run",
            "expected",
            "values",
            "trusts",
            "limits",
        ):
            if name in self.__dict__:
                made.__dict__[name] = self.__dict__[name]
        return made

    def run(self) -> Failure | None:
        """All stages in order; the first that fails."""
        stages = {
            "source": lambda: self.can_run,
            "import": self._import,
            "partition": self._partition,
            "core": self._core,
            "spmd": self._spmd,
        }
        if self.on_devices:
            stages["devices"] = self._devices
        stages["verify"] = self._verify
        for stage, check_stage in stages.items():
            try:
                if check_stage() is False:
                    return None
            except Wrong as wrong:
                return Failure(stage, str(wrong) + self._and_proved(stage))
            except Exception as error:  # whatever is raised is a finding
                return Failure(stage, f"{type(error).__name__}: {error}")
        return None

    # The source

    @cached_property
    def can_run(self) -> bool:
        """Whether the source runs on one device: XLA refuses a few (4-bit integers)."""
        try:
            return len(self.expected) + len(self.values) > 0
        except jax.errors.JaxRuntimeError:
            return False

    @cached_property
    def program(self) -> Program:
        """The program as read."""
        return load(self.case.text)

    @cached_property
    def args(self) -> list[np.ndarray]:
        """Inputs."""
        return inputs(self.program, self.case.holds, self.case.seed)

    @cached_property
    def expected(self) -> list[np.ndarray]:
        """What the source makes of them."""
        return evaluate(self.case.text, self.args)

    @cached_property
    def values(self) -> dict[int, np.ndarray]:
        """Every top-level value of the program as read."""
        program = self.program
        numbers = [v for n in program.body.ops for v in program.ops[n].results]
        numbers = [v for v in numbers if program.types[v].tensor]
        found = dict(zip(program.body.arguments, map(exactly, self.args), strict=True))
        if numbers:
            ports = tuple(Port(f"v{v}", v, 0) for v in numbers)
            made = evaluate(source_text(replace(program, results=ports)), self.args)
            found.update(zip(numbers, made, strict=True))
        return found

    @cached_property
    def trusts(self) -> list[Trust]:
        """How far each result can be relied on."""
        fused = not is_interpreted(self.case.text)
        return trust_of(self.program, self.values, fused)

    @cached_property
    def limits(self) -> list[float | None]:
        """How far numbers of each result may be off."""
        return self._limits(self.trusts)

    def _limits(self, trusts: list[Trust]) -> list[float | None]:
        rough = any(t.level == Level.ROUGH and t.unit > 1e-12 for t in trusts)
        text = widened(self.case.text) if rough else None
        wide: list[np.ndarray | None] = [None] * len(trusts)
        if text is not None:
            wide = [*evaluate(text, [exactly(a) for a in self.args])]
        return list(map(allowed, trusts, self.expected, wide))

    # The stages

    @cached_property
    def partitioned(self) -> Partitioned:
        """The partition."""
        schedule = recorded_schedule(self.case.schedule)
        return partition(
            self.program,
            self.case.mesh,
            schedule,
            carry=self.case.carried(self.program),
            verify="off",  # the proof is an oracle of its own
        )

    @cached_property
    def proof(self) -> Proof:
        """What the verifier says of the device-local module."""
        return self.partitioned.proof()

    def _verify(self) -> None:
        if self.proof.disproved:
            raise Wrong(f"right, and yet {self.proof.disproved[0]}")

    def _and_proved(self, stage: str) -> str:
        """Of a module that gives wrong numbers: whether it is proved nevertheless."""
        if stage not in _RUNS:
            return ""
        try:
            return "" if self.proof.not_proved else "; and yet all results are proved"
        except Exception as error:
            return f"; the verifier fails: {type(error).__name__}: {error}"

    def _import(self) -> None:
        """What XLA compiles it may round otherwise if all values are asked for."""
        limits = self.limits
        if is_interpreted(self.case.text):
            limits = [0.0] * len(self.expected)
        self._require([self.values[p.value] for p in self.program.results], limits)

    def _partition(self) -> None:
        for step in self.partitioned.steps:
            check(step.state)
            check(step.completed)

    def _core(self) -> None:
        state = self.partitioned.steps[-1].completed
        self._require(evaluate(sequential_text(state), self.args), self.limits)

    def _spmd(self) -> None:
        spmd, mesh = self.partitioned.spmd, self.case.mesh
        module = lockstep(self.partitioned.stablehlo(), mesh.size)
        given = [
            tile
            for array, tiling in zip(self.args, spmd.in_tilings, strict=True)
            for tile in tiles(array, tiling, mesh)
        ]
        made = iter(evaluate(module, given))
        ports, wanted = self.program.results, self.expected
        for port, want, tiling, limit in zip(
            ports, wanted, spmd.out_tilings, self.limits, strict=True
        ):
            for device, tile in enumerate(tiles(want, tiling, mesh)):
                require_equal(
                    f"{port.name} on device {device}", next(made), tile, limit
                )

    def _devices(self) -> None:
        """What XLA can't do with the source alone, or does otherwise, is no matter."""
        limits = self._limits(trust_of(self.program, self.values, fused=True))
        try:
            with jax.enable_x64(True):
                made = self.partitioned.compile()(*self.args)
            self._require([exactly(np.asarray(array)) for array in made], limits)
        except Exception:
            if self._same_alone(limits):
                raise

    def _same_alone(self, limits: list[float | None]) -> bool:
        """Whether XLA agrees about the source on one device."""
        try:
            self._require(compiled(self.case.text, self.args), limits)
        except Exception:
            return False
        return True

    def _require(self, made: list[np.ndarray], limits: list[float | None]) -> None:
        ports, wanted = self.program.results, self.expected
        for port, got, want, limit in zip(ports, made, wanted, limits, strict=True):
            require_equal(port.name, got, want, limit)
