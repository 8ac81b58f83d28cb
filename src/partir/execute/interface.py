"""How a program is called: its parameters, and the trees that go in and come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax

from partir.errors import PartitionError
from partir.execute.types import jax_struct
from partir.frontend.arguments import Call, merge_fixed
from partir.frontend.leaves import show_aval
from partir.frontend.parameters import Options, Parameters
from partir.frontend.trace import Outputs, Traced
from partir.ir.core import Program


@dataclass(frozen=True)
class Interface:
    """A traced function's own; a loaded module takes arrays and returns a tuple."""

    parameters: Parameters
    call: Call
    outputs: Outputs
    captured: tuple[Any, ...] = ()
    fn: Callable[..., Any] | None = None

    @classmethod
    def of(
        cls, program: Program, fn: Callable[..., Any] | None, options: Options
    ) -> Interface:
        """Of a function if there is one, else of the program alone."""
        if not isinstance(program, Traced):
            return cls._of_module(program, options)
        call, outputs = program.call, program.outputs
        assert call is not None
        assert outputs is not None
        if fn is not None:
            parameters = Parameters.of(fn, options)
        else:
            parameters = Parameters(call.argument_names, options=options)
            donated = [n in parameters.donated_numbers for n in call.arguments]
            call = replace(call, donated=tuple(donated))
        return cls(parameters, call, outputs, program.captured, fn)

    @classmethod
    def _of_module(cls, program: Program, options: Options) -> Interface:
        names = [port.name for port in program.arguments]
        parameters = Parameters(names, options=options)
        numbers = tuple(range(len(names)))
        call = Call(
            names=tuple(names),
            avals=tuple(jax_struct(program.types[p.value]) for p in program.arguments),
            donated=tuple(n in parameters.donated_numbers for n in numbers),
            arguments=numbers,
            argument_names=tuple(names),
            tree=jax.tree_util.tree_structure((numbers, {})),
            fixed=(),
            statics=(),
        )
        outputs = Outputs(
            tree=jax.tree_util.tree_structure(tuple(range(len(program.results)))),
            fixed=(),
            avals=tuple(jax_struct(program.types[p.value]) for p in program.results),
            names=tuple(port.name for port in program.results),
        )
        return cls(parameters, call, outputs)

    @property
    def donated(self) -> tuple[bool, ...]:
        """Of each leaf, captured arrays first."""
        return (False,) * len(self.captured) + self.call.donated

    def without_statics(self) -> Interface:
        """For what is compiled ahead of time: static arguments are left out."""
        if not self.call.statics:
            return self
        parameters = Parameters(self.call.argument_names)
        return replace(self, parameters=parameters, call=replace(self.call, statics=()))

    def in_tree(self, flat: list[Any]) -> tuple[Any, ...]:
        """One entry per argument, keyword arguments last as a dict if there are any.

        Static arguments are left out, leaves that are no arrays have None.
        """
        leaves = flat[len(self.captured) :]
        nothing = tuple((position, None) for position, _ in self.call.fixed)
        args, kwargs = jax.tree_util.tree_unflatten(
            self.call.tree, merge_fixed(leaves, nothing)
        )
        return (*args, kwargs) if kwargs else tuple(args)

    def out_tree(self, flat: list[Any]) -> Any:
        """The result with these in place of its arrays."""
        nothing = tuple((position, None) for position, _ in self.outputs.fixed)
        return jax.tree_util.tree_unflatten(
            self.outputs.tree, merge_fixed(flat, nothing)
        )

    def require(self, given: Call) -> None:
        """Check that a call fits, or say in a PartitionError how it differs."""
        if given.key != self.call.key:
            raise PartitionError(_difference(self.call, given))


def _difference(wanted: Call, given: Call) -> str:
    want = dict(zip(wanted.names, wanted.avals, strict=True))
    have = dict(zip(given.names, given.avals, strict=True))
    advice = "partition again for these arguments, or call partir.jit's function"
    missing = [name for name in want if name not in have]
    extra = [name for name in have if name not in want]
    if missing or extra:
        parts = [f"without {_listed(missing)}"] if missing else []
        if extra:
            parts.append(f"with {_listed(extra)}, which it doesn't know")
        return (
            "the arguments don't fit the tree that the program was partitioned for: "
            f"called {' and '.join(parts)}; {advice}"
        )
    for name, aval in want.items():
        if show_aval(aval) != show_aval(have[name]):
            return (
                f'argument "{name}" is {show_aval(have[name])}, but the program was '
                f"partitioned for {show_aval(aval)}; {advice}"
            )
    if wanted.statics != given.statics:
        return (
            f"static arguments are {_statics(given)}, but the program was partitioned "
            f"for {_statics(wanted)}; {advice}"
        )
    return (
        "the arguments' tree types, or leaves that are no arrays, differ from those "
        f"that the program was partitioned for; {advice}"
    )


def _statics(call: Call) -> str:
    return ", ".join(f"{where}={value!r}" for where, _, value in call.statics) or "none"


def _listed(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f'"{n}"' for n in names[:most]) + more
