"""`Compiled`: a partitioned function on real devices, called with global arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import NamedSharding

from partir.errors import PartitionError
from partir.execute import forking
from partir.execute.agreement import require_agreement
from partir.execute.ahead_of_time import Lowered
from partir.execute.checked import Check
from partir.execute.interface import Interface
from partir.execute.jax_private import any_deleted
from partir.execute.nans import raise_not_finite
from partir.execute.options import CompilerOptions, missed
from partir.execute.placing import is_concrete, is_placed, place
from partir.execute.runner import CallPlan, SignatureMiss, jit_flat
from partir.frontend.arguments import Call, flatten_call, quick_flatten, same_fixed

T = TypeVar("T")


class Compiled:
    """Call it like the original function; arrays in and out are global.

    Host arrays and uncommitted ones are placed. A committed array must already lie as
    the program wants it, or the call is a PartitionError.
    """

    def __init__(
        self,
        plan: CallPlan,
        interface: Interface,
        mesh: jax.sharding.Mesh,
        compiler_options: CompilerOptions | None = None,
        check: Check[Any] | None = None,
    ) -> None:
        """Build the jitted function; nothing is compiled before the first call.

        Nothing is run before the check has passed.
        """
        if forking.stranded:
            forking.refuse_stranded()
        self._check = check  # none once it has passed
        self.plan, self.mesh = plan, mesh
        self._interface, self._compiler_options = interface, compiler_options
        self._abstract = mesh.abstract_mesh
        shardings = [NamedSharding(mesh, spec) for spec in plan.in_specs]
        count = len(interface.captured)
        self._captured_shardings = shardings[:count]
        self._shardings = shardings[count:]
        self._uneven = plan.in_uneven[count:] or (None,) * len(self._shardings)
        self._pads = any(self._uneven)
        self._fixed = interface.call.fixed
        self._donates = any(interface.call.donated)
        # Which arrays last came from elsewhere and had to be placed, the batch mostly.
        self._loose: frozenset[int] = frozenset()
        require_agreement(plan, mesh)

    @cached_property
    def _captured(self) -> list[jax.Array]:
        """Captured arrays on the devices, which may be such as are only compiled for.

        So nothing is placed before the first call, which may be traced by another jit.
        """
        pairs = zip(self._interface.captured, self._captured_shardings, strict=True)
        with jax.ensure_compile_time_eval():
            return [jax.device_put(array, sharding) for array, sharding in pairs]

    @cached_property
    def jitted(self) -> Any:
        """The whole as one jax.jit function of flat arrays, captured ones first."""
        donated = self._interface.donated
        return jit_flat(self.plan, self.mesh, donated, self._compiler_options)

    @cached_property
    def _nested(self) -> Any:
        """The same, for use inside another traced function."""
        donated = self._interface.donated
        return jit_flat(self.plan, self.mesh, donated, None, nested=True)

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the devices."""
        try:
            call = self._interface.call
            tree, statics, leaves = quick_flatten(
                self._interface.parameters, args, kwargs
            )
            if tree == call.tree and statics == call.statics:
                return self.run(leaves)
        except (SignatureMiss, TypeError, ValueError):
            pass  # below every argument is checked: that finds out what is wrong
        given, arrays = flatten_call(self._interface.parameters, args, kwargs)
        self._interface.require(self.as_seen(given, arrays))
        return self.run_placed(arrays)

    @property
    def call(self) -> Call:
        """The call that this program is for."""
        return self._interface.call

    def fits_padded(self, given: Call, arrays: Sequence[Any] | None = None) -> bool:
        """Whether this program serves a call of which some arrays come padded.

        Without arrays: whether it would, if those lay on devices.
        """
        seen = self.as_seen(given, arrays)
        return seen is not given and seen.key == self.call.key

    def as_seen(self, given: Call, arrays: Sequence[Any] | None) -> Call:
        """A call in which arrays that come padded count as those that users see.

        Such arrays lie on devices: one from elsewhere is as large as it is.
        """
        if not self._pads or len(given.avals) != len(self._uneven):
            return given
        avals = list(given.avals)
        for number, uneven in enumerate(self._uneven):
            larger = uneven is not None and avals[number].shape == uneven.padded
            if larger and (arrays is None or is_placed(arrays[number])):
                avals[number] = self.call.avals[number]
        same = all(a is b for a, b in zip(avals, given.avals, strict=True))
        return given if same else replace(given, avals=tuple(avals))

    def run(self, leaves: Sequence[Any]) -> Any:
        """Run on the leaves of a call that fits; jax's own fast path."""
        if forking.stranded:
            forking.refuse_stranded()
        arrays = leaves if not self._fixed else self._without_fixed(leaves)
        if self._pads and len(arrays) == len(self._uneven):
            for array, uneven in zip(arrays, self._uneven, strict=True):
                larger = uneven is not None and np.shape(array) == uneven.padded
                if larger and not is_placed(array):
                    raise SignatureMiss
        return self._run(self._place_loose(arrays) if self._loose else arrays)

    def run_placed(self, arrays: Sequence[Any], executable: Any = None) -> Any:
        """Check and place every array, then run, if need be an executable of ours."""
        if forking.stranded:
            forking.refuse_stranded()
        placed, nested = self._place(arrays)
        results = self._run(placed, executable or nested)
        lost = missed(self._compiler_options) if nested is not None else None
        if lost:
            warnings.warn(_lost_options(lost), stacklevel=3)
        return results

    def _run(self, arrays: Sequence[Any], jitted: Any = None) -> Any:
        if any_deleted(arrays):
            raise self._deleted(arrays)
        if self._donates and len(set(map(id, arrays))) < len(arrays):
            self._refuse_shared(arrays)
        if self._check is not None:
            self._compile_checked(arrays, jitted)
        with jax.sharding.use_abstract_mesh(self._abstract):
            try:
                results = (jitted or self.jitted)(*self._captured, *arrays)
            except FloatingPointError as error:
                name, interface = self.plan.name, self._interface
                raise_not_finite(name, interface, arrays, self.mesh, error)
        return self._interface.outputs.rebuild(results)

    def _compile_checked(self, arrays: Sequence[Any], jitted: Any) -> None:
        """Compile for these arrays, which jax remembers, and check meanwhile."""
        if jitted is not None:  # an executable, or what stands inside another function
            self.require_checked()
            return
        with jax.sharding.use_abstract_mesh(self._abstract):
            lowered = self.jitted.lower(*self._captured, *arrays)
            self._checked(lowered.compile)

    def require_checked(self) -> None:
        """Check now, if that has not been done."""
        check = self._check  # another thread may have it done in between
        if check is not None:
            check.now()
            self._check = None

    def _checked(self, compile_: Callable[[], T]) -> T:
        """Compile, and check meanwhile, if that has not been done."""
        check = self._check
        if check is None:
            return compile_()
        made = check.beside(compile_)
        self._check = None
        return made

    def _place(self, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        names = self._interface.call.names
        placed = list(map(place, names, arrays, self._shardings, self._uneven))
        if any(isinstance(a, jax.core.Tracer) for a in arrays):
            return placed, self._nested
        pairs = enumerate(zip(placed, arrays, strict=True))
        self._loose = frozenset(i for i, (new, old) in pairs if new is not old)
        return placed, None

    def _place_loose(self, arrays: Sequence[Any]) -> list[Any]:
        """Place those that had to be last time; if others have to be, jit misses."""
        placed, names = list(arrays), self._interface.call.names
        for i in self._loose:
            placed[i] = place(names[i], arrays[i], self._shardings[i], self._uneven[i])
        settled = {i for i in self._loose if placed[i] is arrays[i]}
        if settled:
            self._loose -= settled
        return placed

    def _without_fixed(self, leaves: Sequence[Any]) -> list[Any]:
        """The arrays; leaves that are none must be as they were."""
        arrays = list(leaves)
        for position, value in reversed(self._fixed):
            if not same_fixed(arrays.pop(position), value):
                raise SignatureMiss
        return arrays

    def _deleted(self, arrays: Sequence[Any]) -> PartitionError:
        """XLA may crash on such an array, so it is looked for before every call."""
        pairs = zip(self._interface.call.names, arrays, strict=True)
        name = next(name for name, array in pairs if any_deleted([array]))
        return PartitionError(
            f'argument "{name}" has been deleted: it was donated to an earlier call. '
            "Pass what that call returned in its place, or don't donate it"
        )

    def _refuse_shared(self, arrays: Sequence[Any]) -> None:
        """XLA may crash on an array that is donated and comes once more."""
        seen: dict[int, int] = {}
        names, donated = self._interface.call.names, self._interface.call.donated
        for number, array in enumerate(arrays):
            first = seen.setdefault(id(array), number)
            given = donated[first] or donated[number]
            if first != number and given and is_concrete(array):
                raise PartitionError(
                    f'arguments "{names[first]}" and "{names[number]}" are one and the '
                    "same array, which is donated: its memory can be given away only "
                    "once. Copy one of them, jnp.copy(...), or don't donate"
                )

    # Ahead of time

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """As `jax.jit(...).lower`; shapes will do for arrays."""
        given, arrays = flatten_call(self._interface.parameters, args, kwargs)
        self._interface.require(self.as_seen(given, arrays))
        return self.lower_abstract()

    def lower_abstract(self) -> Lowered:
        """Lowered for the signature that the program was partitioned for."""
        shardings = [NamedSharding(self.mesh, spec) for spec in self.plan.in_specs]
        pairs = zip(self.plan.in_avals, shardings, strict=True)
        avals = [aval.update(sharding=sharding) for aval, sharding in pairs]
        with jax.sharding.use_abstract_mesh(self._abstract):
            lowered = self.jitted.lower(*avals)
        interface = self._interface.without_statics()
        return Lowered(lowered, interface, self.run_placed, self.as_seen, self._checked)


def _lost_options(options: CompilerOptions) -> str:
    return (
        "inside another jax.jit a partitioned function can't set options for XLA; it "
        "gives the same results, but may need more memory or time. Give them to the "
        f"outermost jit: compiler_options={dict(options)}"
    )
