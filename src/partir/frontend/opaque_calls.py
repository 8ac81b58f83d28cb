"""Functions that stay whole while a program is partitioned, and their local text.

While a function is lowered inside `opaque_calls`, those that `partir.opaque` made
become one custom call each, with an id. The table of ids goes along with the program;
on export the function is traced once more, at its local shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.mlir import ir

from partir.errors import PartitionError
from partir.ir.types import TensorType
from partir.ir.user_rule import UserRule

Flat = Callable[..., Sequence[Any]]
Types = tuple[TensorType, ...]


@dataclass(frozen=True)
class OpaqueFunction:
    """A function of arrays, its rule, and what tracing it anew depends on."""

    fn: Flat
    rule: UserRule
    operands: tuple[jax.ShapeDtypeStruct, ...]
    platforms: tuple[str, ...]
    x64: bool
    precision: str | None

    @classmethod
    def of(
        cls,
        fn: Flat,
        rule: UserRule,
        operands: Sequence[jax.ShapeDtypeStruct],
        platforms: Sequence[str],
    ) -> OpaqueFunction:
        """With jax's settings of this moment."""
        config: Any = jax.config
        settings = config.jax_enable_x64, config.jax_default_matmul_precision
        return cls(fn, rule, tuple(operands), tuple(platforms), *settings)


class Functions(dict[str, OpaqueFunction]):
    """Functions by id. A copy by pickle has none: functions are of their process.

    `texts` are those that were asked for already, at local types.
    """

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self.texts: dict[tuple[str, str, Types, Types], str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """An empty one."""
        return Functions, ()


class Table:
    """Functions by id; equal ones have one."""

    def __init__(self) -> None:
        """Start empty."""
        self.functions = Functions()
        self._ids: dict[OpaqueFunction, str] = {}
        self._pairs: dict[Any, str] = {}

    def add(self, name: str, opaque: OpaqueFunction) -> str:
        """The id of a function: its name, with a number if that is taken."""
        if opaque not in self._ids:
            made, number = name, 1
            while made in self.functions:
                number += 1
                made = f"{name}_{number}"
            self.functions[made] = opaque
            self._ids[opaque] = made
        return self._ids[opaque]

    def pair(self, key: Any) -> str:
        """A short name for what calls have in common that hand on residuals."""
        return self._pairs.setdefault(key, str(len(self._pairs)))


_current: ContextVar[Table | None] = ContextVar("partir_opaque_calls", default=None)


@contextmanager
def opaque_calls() -> Iterator[Table]:
    """While inside, lowering keeps functions whole and puts them into this table."""
    table = Table()
    token = _current.set(table)
    try:
        yield table
    finally:
        _current.reset(token)


def current_table() -> Table | None:
    """The table to put functions into, None where they are to be inlined."""
    return _current.get()


# Local text


def local_functions(functions: Mapping[str, OpaqueFunction]) -> Any:
    """What the exporter asks: text of a function at its local types (`MakeText`)."""
    known = functions.texts if isinstance(functions, Functions) else {}

    def make(name: str, symbol: str, operands: Types, results: Types) -> str:
        key = (name, symbol, operands, results)
        if key not in known:
            known[key] = trace(*key)
        return known[key]

    def trace(name: str, symbol: str, operands: Types, results: Types) -> str:
        opaque = functions.get(name)
        if opaque is None:
            raise PartitionError(
                f"partir.opaque({name}) is a function of the process that traced the "
                "program: export it there"
            )
        lowered = _lower(name, opaque, operands)
        _require_results(name, opaque, operands, results, lowered.out_info)
        module = lowered.compiler_ir()
        _refuse_callbacks(name, module)
        return _renamed(module, symbol)

    return make


def _lower(name: str, opaque: OpaqueFunction, operands: Types) -> Any:
    avals = [
        jax.ShapeDtypeStruct(
            type_.shape[: len(aval.shape)], aval.dtype, weak_type=aval.weak_type
        )
        for type_, aval in zip(operands, opaque.operands, strict=True)
    ]

    def local(*arrays: Any) -> list[Any]:
        return list(opaque.fn(*arrays))

    local.__name__ = name
    with ExitStack() as settings:
        nowhere = jax.sharding.AbstractMesh((), ())
        settings.enter_context(jax.sharding.use_abstract_mesh(nowhere))
        settings.enter_context(jax.enable_x64(opaque.x64))
        settings.enter_context(jax.default_matmul_precision(opaque.precision))
        try:
            traced: Any = jax.jit(local, keep_unused=True).trace(*avals)
            return traced.lower(lowering_platforms=opaque.platforms)
        except Exception as error:
            raise PartitionError(
                f"partir.opaque({name}) can't be traced at its local shapes "
                f'{_shown(operands)}, which its rule "{opaque.rule}" allows '
                f"(whole: {_shown(opaque.operands)}). {type(error).__name__}: {error}"
            ) from error


def _require_results(
    name: str,
    opaque: OpaqueFunction,
    operands: Types,
    results: Types,
    made: Sequence[Any],
) -> None:
    """The rule's promise: on tiles the function gives tiles."""
    wanted = [tuple(type_.shape) for type_ in results]
    shapes = [tuple(info.shape) for info in made]
    fits = len(shapes) == len(wanted) and all(
        shape == want[: len(shape)] for shape, want in zip(shapes, wanted, strict=True)
    )
    if not fits:
        raise PartitionError(
            f"partir.opaque({name}) gives {_shapes(shapes)} for tiles "
            f'{_shown(operands)}, but by its rule "{opaque.rule}" it gives '
            f"{_shapes(wanted)}: a size in the function does not follow its operands', "
            "or a dimension should be _ in the rule"
        )


def _shown(values: Sequence[Any]) -> str:
    return _shapes([tuple(value.shape) for value in values])


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(f"[{','.join(map(str, shape))}]" for shape in shapes) or "nothing"


def _refuse_callbacks(name: str, module: Any) -> None:
    """A callback is an index into a table of its own lowering, lost here."""

    def visit(op: Any) -> Any:
        if "call_target_name" in op.attributes:
            target = ir.StringAttr(op.attributes["call_target_name"]).value
            if "callback" in target:
                raise PartitionError(
                    f"partir.opaque({name}) calls the host back (jax.debug.print, "
                    "pure_callback, interpret mode with TPU semantics): such a "
                    "function can't be exported; take the call out of it"
                )
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _renamed(module: Any, symbol: str) -> str:
    """All of a module's functions as text, `main` as `symbol`, the others after it."""
    whole = module.operation
    ops = list(module.body.operations)
    for op in ops:
        old = ir.StringAttr(op.attributes["sym_name"]).value
        new = symbol if old == "main" else f"{symbol}_{old}"
        ir.SymbolTable.replace_all_symbol_uses(old, new, whole)
        ir.SymbolTable.set_symbol_name(op, new)
        if op.operation.name == "func.func":
            ir.SymbolTable.set_visibility(op, "private")
    for name in ("arg_attrs", "res_attrs"):
        for op in ops:
            if name in op.attributes:
                del op.attributes[name]
    return "\n".join(
        op.get_asm(use_local_scope=True, enable_debug_info=False) for op in ops
    )
