"""Running a program on formulas, on all devices at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from partir.ir.core import Op, Program, Region
from partir.verify.elements.alone import Elements, evaluated
from partir.verify.elements.elementwise import Elementwise
from partir.verify.elements.live import Live
from partir.verify.elements.products import PRODUCTS
from partir.verify.layouts.layout import Unreadable

OnDevices = list[Elements]  # of each device; equal ones may be one object
Together = Callable[["Lockstep", Op], list[OnDevices]]
_TOGETHER: dict[str, Together] = {}


def together(*names: str) -> Callable[[Together], Together]:
    """Register how ops are run that devices do not run each for itself."""

    def keep(run: Together) -> Together:
        _TOGETHER.update({f"stablehlo.{name}": run for name in names})
        return run

    return keep


class TooLarge(Unreadable):
    """More elements than anybody would wait for."""


class Lockstep:
    """What is known of a program's values, on each device."""

    def __init__(
        self,
        ops: Elementwise,
        program: Program,
        names: Sequence[str],
        sizes: Sequence[int],
        most: int,
        live: Live | None = None,
    ) -> None:
        """`most` elements are computed in all; only of `live` values, if given."""
        self.ops, self.program, self.most = ops, program, most
        self._live = live
        self.names, self.sizes = tuple(names), tuple(sizes)
        self.devices = range(math.prod(sizes))
        self.env: dict[int, OnDevices] = {}

    def run(self, region: Region) -> None:
        """Run a block; of its ops, those with a result that is live."""
        for index in region.ops:
            op = self.program.ops[index]
            if self._live is None or not self._live.isdisjoint(op.results):
                self._step(op)

    def held(self, values: Sequence[int]) -> list[OnDevices]:
        """What devices have; of what is not live, nothing."""
        live = self._live
        return [self.env[v] if live is None or v in live else [] for v in values]

    def _step(self, op: Op) -> None:
        run = _TOGETHER.get(op.kind)
        made = run(self, op) if run is not None else self._alone(op)
        for value, held in zip(op.results, made, strict=True):
            self.env[value] = held

    def spend(self, op: Op, devices: int = 1) -> None:
        """Count elements; stop before there are too many."""
        types = (*op.signature.results, *op.signature.operands)
        self.most -= devices * max(math.prod(t.shape) for t in types)
        if op.kind in PRODUCTS:
            shapes = [math.prod(t.shape) for t in op.signature.operands]
            self.most -= devices * math.isqrt(
                math.prod(shapes) * math.prod(op.signature.results[0].shape)
            )
        if self.most < 0:
            raise TooLarge("too many elements to look at each")

    def _alone(self, op: Op) -> list[OnDevices]:
        """An op that devices run for themselves; once for those that do the same."""
        known: dict[tuple[int, ...], list[Elements]] = {}
        found = []
        for device in self.devices:
            given = [self.env[value][device] for value in op.operands]
            key = tuple(map(id, given))
            if key not in known:
                self.spend(op)
                known[key] = evaluated(self.ops, op.signature, given)
            found.append(known[key])
        return [[held[n] for held in found] for n in range(len(op.results))]
