"""`Compiled`: a partitioned function on real devices, called with global arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
from jax.sharding import NamedSharding

from partir.errors import PartitionError
from partir.execute.placing import place
from partir.execute.runner import Plan, SignatureMiss, jit_call, jit_flat
from partir.frontend.arguments import Call, Options, flatten_call
from partir.frontend.trace import Traced
from partir.ir.core import Program


class Compiled:
    """Call it like the original function; arrays in and out are global.

    Host arrays and uncommitted ones are placed. A committed array must already lie as
    the program wants it, or the call is a PartitionError.
    """

    def __init__(
        self,
        program: Program,
        plan: Plan,
        mesh: jax.sharding.Mesh,
        fn: Callable[..., Any] | None,
        options: Options,
        compiler_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Build the jitted function; nothing is compiled before the first call."""
        self.program, self.plan, self.mesh = program, plan, mesh
        self._fn, self._options = fn, options
        self._shardings = [NamedSharding(mesh, spec) for spec in plan.in_specs]
        self._call: Call | None = None
        self._captured: list[Any] = []
        if isinstance(program, Traced):
            self._call, outputs = program.call, program.outputs
            assert self._call is not None
            assert outputs is not None
            self._outputs = outputs
            self._captured = [
                jax.device_put(array, sharding)
                for array, sharding in zip(
                    program.captured, self._shardings, strict=False
                )
            ]
        self.fast: Callable[..., Any] | None = None
        if self._call is not None and self._is_direct(self._call):
            jitted = jit_call(plan, mesh, self._call, outputs, compiler_options)
            self.jitted = jitted
            self.fast = partial(jitted, self._captured)
        else:
            self.jitted = jit_flat(plan, mesh, self._donated(), compiler_options)

    @staticmethod
    def _is_direct(call: Call) -> bool:
        """Arrays in positional arguments, a donated one donated whole."""
        keywords = any(isinstance(where, str) for where, _ in call.statics)
        _, kwargs = call.tree.children()
        return not call.fixed and not keywords and kwargs.num_nodes == 1

    def _donated(self) -> list[bool]:
        count = len(self.plan.in_specs)
        donated = self._call.donated if self._call is not None else ()
        return [False] * (count - len(donated)) + list(donated)

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the devices."""
        if self.fast is not None and not kwargs:
            try:
                return self.fast(*args)
            except (SignatureMiss, ValueError, TypeError):
                pass  # the careful way below finds out what is wrong, and says it
        return self.careful(args, kwargs)

    def careful(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Check and place every argument, then run."""
        call = self._match(args, kwargs)
        first = len(self._captured)
        leaves = [
            place(name, leaf, sharding)
            for name, leaf, sharding in zip(
                call.names, call.leaves, self._shardings[first:], strict=True
            )
        ]
        if self.fast is not None:
            arguments, _ = call.rebuild(leaves)
            return self.fast(*arguments)
        return self._run_flat([*self._captured, *leaves])

    def _run_flat(self, leaves: list[Any]) -> Any:
        donated = self._donated()
        results = self.jitted(*split(leaves, donated))
        if self._call is None:
            return tuple(results)
        return self._outputs.rebuild(results)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit(...).lower`: the lowered computation, which has `.compile()`."""
        call = self._match(args, kwargs)
        if self.fast is not None:
            arguments, _ = call.rebuild(call.leaves)
            return self.jitted.lower(self._captured, *arguments)
        leaves = [*self._captured, *call.leaves]
        return self.jitted.lower(*split(leaves, self._donated()))

    def lower_abstract(self) -> Any:
        """Lowered for the signature that the program was traced for."""
        if self._call is not None:
            captured = [jax.ShapeDtypeStruct(c.shape, c.dtype) for c in self._captured]
            leaves = [*captured, *self._call.avals]
            if self.fast is not None:
                arguments, _ = self._call.rebuild(self._call.avals)
                return self.jitted.lower(captured, *arguments)
            return self.jitted.lower(*split(leaves, self._donated()))
        return self.jitted.lower(*split(list(self.plan.in_avals), self._donated()))

    def _match(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """The call flattened, or a PartitionError that says how it differs."""
        fn = self._fn if self._fn is not None else _positional
        call = flatten_call(fn, args, kwargs, self._options)
        wanted = self._call
        if wanted is None:
            _require_arrays(call, self.program, self.plan)
        elif call.key != wanted.key:
            raise PartitionError(describe_mismatch(wanted, call))
        return call


def _positional(*args: Any) -> None:
    """Signature of a loaded module."""


def split(leaves: list[Any], donated: list[bool]) -> tuple[list[Any], list[Any]]:
    """Donated leaves and the others."""
    pairs = list(zip(leaves, donated, strict=True))
    return [x for x, d in pairs if d], [x for x, d in pairs if not d]


def _require_arrays(call: Call, program: Program, plan: Plan) -> None:
    if len(call.avals) != len(plan.in_avals):
        raise PartitionError(
            f"{program.name} takes {len(plan.in_avals)} arrays, got {len(call.avals)}"
        )
    for port, have, want in zip(
        program.arguments, call.avals, plan.in_avals, strict=True
    ):
        if have.shape != want.shape or have.dtype != want.dtype:
            raise PartitionError(
                f'argument "{port.name}" of {program.name} is {_show(want)}, got '
                f"{_show(have)}"
            )


def _show(aval: jax.ShapeDtypeStruct) -> str:
    return f"{aval.dtype}[{','.join(map(str, aval.shape))}]"


def describe_mismatch(wanted: Call, given: Call) -> str:
    """How one call differs from the one that a program was partitioned for."""
    want = dict(zip(wanted.names, wanted.avals, strict=True))
    have = dict(zip(given.names, given.avals, strict=True))
    advice = "partition again for these arguments, or call partir.jit's function"
    missing = [name for name in want if name not in have]
    extra = [name for name in have if name not in want]
    if missing or extra:
        parts = []
        if missing:
            parts.append(f"without {_listed(missing)}")
        if extra:
            parts.append(f"with {_listed(extra)}, which it doesn't know")
        return (
            "the arguments don't fit the tree that the program was partitioned for: "
            f"called {' and '.join(parts)}; {advice}"
        )
    for name, aval in want.items():
        if _show(aval) != _show(have[name]):
            return (
                f'argument "{name}" is {_show(have[name])}, but the program was '
                f"partitioned for {_show(aval)}; {advice}"
            )
    return (
        "static arguments or tree types differ from those that the program was "
        f"partitioned for; {advice}"
    )


def _listed(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f'"{n}"' for n in names[:most]) + more
