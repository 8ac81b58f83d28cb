"""SPMD program -> device-local StableHLO text.

Text is quicker to write than MLIR objects and the parser checks it. Replica groups
are aliases by mesh axes, so that their length appears once per set of axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby

import numpy as np

from partir.ir.attributes import EXPORTED
from partir.ir.garbage import collection_paused
from partir.ir.source import Location
from partir.ir.types import TensorType, tensor
from partir.jax_window import GROUPS_BY_AXES
from partir.rules.host import runs_once
from partir.rules.local import (
    INDEX,
    Ssa,
    all_starts,
    binary,
    constant,
    converted,
    emit_default,
    place_type,
    sliced_at,
)
from partir.rules.monoids import nothing, reducer
from partir.rules.nest import Nest
from partir.rules.slices import window_of_whole
from partir.spmd.export_policy import PLAIN, ExportPolicy
from partir.spmd.lowering.padding import cut_tiles, pad_tiles
from partir.spmd.preparations.flat_weights import flat_product, multiply_flat
from partir.spmd.preparations.joint_moves import joint_of
from partir.spmd.preparations.prepare import prepared
from partir.spmd.preparations.product_order import waits_of
from partir.spmd.preparations.start_late import late_starts, start_late
from partir.spmd.preparations.succeeding import held_with_argument, kept_arguments
from partir.spmd.program import (
    BARRIER,
    EXCHANGE,
    SLICE,
    Block,
    Collective,
    Compute,
    Control,
    SpmdProgram,
    is_barrier,
)
from partir.spmd.stablehlo.bundles import (
    bundled,
    flat,
    in_pieces,
    moved_shape,
    unbundled,
    unflat,
)
from partir.spmd.stablehlo.device_groups import (
    alias_of,
    groups_by_axes,
    numbers_text,
    permutation,
    replica_groups,
)
from partir.spmd.stablehlo.emit import Template, TextEmitter, ssa
from partir.spmd.stablehlo.opaque_functions import MakeText
from partir.spmd.stablehlo.outer_tiles import is_inner, joined, parted
from partir.spmd.stablehlo.windows import exchange
from partir.spmd.stablehlo.wire_types import carried, restored

# Beyond this many devices replica groups are spelled by mesh axes: MLIR checks every
# number of every dense group, which then takes longer than all the rest. Dense ones
# are older and every back end reads them.
DENSE_LIMIT = 1024


@collection_paused
def stablehlo_text(
    program: SpmdProgram,
    policy: ExportPolicy = PLAIN,
    first_channel: int = 1,
    opaque: MakeText | None = None,
) -> str:
    """The module that each device runs, for the compiler that the policy is of.

    `opaque` gives the text of opaque functions.
    """
    return _Exporter(prepared(program, policy), policy, first_channel, opaque).run()


class _Exporter(TextEmitter):
    def __init__(
        self,
        program: SpmdProgram,
        policy: ExportPolicy,
        first_channel: int,
        opaque: MakeText | None,
    ) -> None:
        super().__init__(opaque)
        self.program, self.policy = program, policy
        self.mesh = program.mesh
        self.env: dict[int, Ssa] = {}
        self._channel = first_channel
        self._indices: dict[str, Ssa] = {}
        # What a tied gather waited for, as the barrier hands it on, by its result.
        self._waited: dict[int, tuple[int, Ssa]] = {}
        self._prologue: list[str] = []
        self._waits = waits_of(program, policy)
        self._late = late_starts(program) if policy.starts_late else set()
        self._special = self._waits.keys() | self._late
        self._lines: dict[Nest, tuple[Template, TensorType] | None] = {}
        self._kept = kept_arguments(program) if policy.keeps_arguments else {}
        self._loops = 0  # that what is being written stands in

    def run(self) -> str:
        body = self.program.body
        types = self.program.types
        for number, value in enumerate(body.arguments):
            self.env[value] = Ssa(f"%arg{number}", types[value])
        self.block_ops(body)
        self.lines = [*self._prologue, *self.lines]
        arguments = [self.env[v] for v in body.arguments]
        results = [self.env[v] for v in body.results]
        attrs = {EXPORTED: str(self.mesh)} if self.mesh.size > 1 else {}
        return self.module(self.program.program.name, arguments, results, attrs)

    # Ops

    def block_ops(self, block: Block) -> None:
        for joint, run in groupby(block.ops, joint_of):
            if joint >= 0:
                self.together([one for one in run if isinstance(one, Collective)])
                continue
            for op in run:
                if type(op) is Compute:
                    self.compute(op)
                elif type(op) is Collective:
                    self.collective(op)
                else:
                    assert isinstance(op, Control)
                    self.control(op)

    def compute(self, op: Compute) -> None:
        node, nest, operands, results = op
        self.at(self.program.program.ops[node].location)
        waited = self._waited
        if nest not in self._lines:
            self._lines[nest] = self._line_of(nest)
        line = self._lines[nest]
        behind = bool(waited) and not waited.keys().isdisjoint(operands)
        if line is None and nest in self._numbers and not operands:
            self.env[results[0]] = self._repeated(*self._numbers[nest])[0]
        elif line is None or behind or results[0] in self._special:
            self._formed(op)
        else:  # most ops
            (head, tail), type_ = line
            env, name = self.env, self.fresh()
            names = ", ".join([env[value][0] for value in operands])
            self.lines.append(f"{name} = {head}{names}{tail}{self.place}")
            env[results[0]] = ssa((name, type_))

    def _line_of(self, nest: Nest) -> tuple[Template, TensorType] | None:
        """How an op is written that is one line with one result; None for others."""
        if self.policy.flattens_weights and flat_product(nest) is not None:
            return None
        template = self.template(nest)
        plain = template is not None and any(template) and len(nest.result_types) == 1
        return (template, nest.result_types[0]) if template and plain else None

    def _formed(self, op: Compute) -> None:
        """An op that waits, or has a form of its own, or several results."""
        operands = self._waiting(op, self._operands(op))
        if op.results and op.results[0] in self._late:
            operands = start_late(self, operands, self._splats(op)[0])
        template = self.template(op.nest)
        flat = flat_product(op.nest) if self.policy.flattens_weights else None
        if flat is not None:
            made = multiply_flat(self, op.nest, operands, flat)
        elif template is not None:
            made = self.line(op.nest, template, operands)
        elif runs_once(op.nest.signature):
            made = self.on_first_device(op.nest, operands)
        else:
            made = self.local(op.nest, operands, self._splats(op))
        self.env.update(zip(op.results, made, strict=True))

    def _splats(self, op: Compute) -> list[str | None]:
        """The number that each operand is everywhere, if it is one."""
        return [self.program.splats.get(v) for v in op.operands]

    def _operands(self, op: Compute) -> list[Ssa]:
        """What an op reads; with a tied gather, also what that waited for."""
        env, waited = self.env, self._waited
        found = [env[v] for v in op.operands]
        if waited and not waited.keys().isdisjoint(op.operands):
            own = dict(waited[v] for v in op.operands if v in waited)
            found = [own.get(v, env[v]) for v in op.operands]
        return found

    def _waiting(self, op: Compute | Control, operands: list[Ssa]) -> list[Ssa]:
        """What an op reads, one of them behind a barrier if the op is to wait."""
        wait = self._waits.get(op.results[0]) if op.results else None
        if wait is None:
            return operands
        all_ = [operands[wait.position], *(self.env[v] for v in wait.values)]
        made = list(operands)
        made[wait.position], *waited = self.op(BARRIER, all_, [s.type for s in all_])
        if self.policy.reads_through:
            self.env.update(zip(wait.values, waited, strict=True))
        return made

    def on_first_device(self, nest: Nest, operands: Sequence[Ssa]) -> tuple[Ssa, ...]:
        """The op on one device; zeros on the others, which a collective fills in."""
        boolean, zero = tensor((), "i1"), constant(self, INDEX, "0")
        attrs = {
            "comparison_direction": "#stablehlo<comparison_direction EQ>",
            "compare_type": "#stablehlo<comparison_type SIGNED>",
        }
        here = self.flat_index(self.mesh.names)
        (first,) = self.op("stablehlo.compare", (here, zero), (boolean,), attrs)
        regions = [
            self.region((), lambda: emit_default(nest, self, operands)),
            self.region((), lambda: [self._nothing(t) for t in nest.result_types]),
        ]
        return self.op("stablehlo.if", (first,), nest.result_types, regions=regions)

    def _nothing(self, type_: TensorType) -> Ssa:
        """A token, or what leaves the first device's numbers as they are."""
        if not type_.tensor:
            return self.op("stablehlo.create_token", (), (type_,))[0]
        return constant(self, type_, nothing(type_))

    def control(self, op: Control) -> None:
        source = self.program.program.ops[op.node]
        self.at(source.location)
        if is_barrier(op):
            self._barrier(op)
            return
        self._loops += op.trips != 1
        regions = [self.block(block) for block in op.blocks]
        self._loops -= op.trips != 1
        types = [self.program.types[v] for v in op.results]
        operands = self._waiting(op, [self.env[v] for v in op.operands])
        attrs = source.signature.attrs
        made = self.op(source.kind, operands, types, attrs, regions=regions)
        self.env.update(zip(op.results, made, strict=True))

    def _barrier(self, op: Control) -> None:
        operands = [self.env[v] for v in op.operands]
        made = self.op(BARRIER, operands, [one.type for one in operands])
        self.env.update(zip(op.results, made, strict=True))

    def block(self, block: Block) -> str:
        env = self.env
        for value in block.arguments:
            env[value] = Ssa(self.fresh(), self.program.types[value])

        def run() -> list[Ssa]:
            self.block_ops(block)
            return [env[v] for v in block.results]

        return self.region([env[v] for v in block.arguments], run)

    # The device's coordinates, computed once at the top.

    def index(self, axis: str) -> Ssa:
        """The device's coordinate on an axis."""
        if axis not in self._indices:
            outer, self.lines, place = self.lines, self._prologue, self.place
            self.place = ""
            self._indices[axis] = self._coordinate(axis)
            self.lines, self.place = outer, place
        return self._indices[axis]

    def _coordinate(self, axis: str) -> Ssa:
        (flat,) = self.op("stablehlo.partition_id", (), (tensor((), "ui32"),))
        (flat,) = self.op("stablehlo.convert", (flat,), (INDEX,))
        names = self.mesh.names
        inner = names[names.index(axis) + 1 :]
        stride = math.prod(self.mesh.axes[a] for a in inner)
        if stride > 1:
            flat = binary(self, "divide", flat, constant(self, INDEX, str(stride)))
        size = constant(self, INDEX, str(self.mesh.axes[axis]))
        return binary(self, "remainder", flat, size)

    def flat_index(self, axes: Sequence[str]) -> Ssa:
        """Position within a group of several axes, major first."""
        made: Ssa | None = None
        for axis in axes:
            index = self.index(axis)
            if made is not None:
                size = constant(self, INDEX, str(self.mesh.axes[axis]))
                index = binary(self, "add", binary(self, "multiply", made, size), index)
            made = index
        assert made is not None
        return made

    # Collectives

    def together(self, ops: Sequence[Collective]) -> None:
        """Several collectives of one kind as one, on values side by side."""
        first, parts = ops[0], self._parts(ops[0])
        self._place(first)
        operands = [self._tied(first, ops), *(self.env[op.operand] for op in ops[1:])]
        rows = [
            flat(self, op, carried(self, operand, op.monoid), parts)
            for op, operand in zip(ops, operands, strict=True)
        ]
        bundle = bundled(self, rows)
        shape = moved_shape(first.kind, bundle.type.shape, math.prod(parts))
        type_ = bundle.type.with_shape(shape)
        made = self._emitted(first._replace(dim=0), bundle, type_)
        for op, part in zip(ops, unbundled(self, made, rows), strict=True):
            type_ = self.program.types[op.result]
            shapes = self.program.types[op.operand].shape, type_.shape
            part = unflat(self, op, part, shapes, parts)
            part = restored(self, part, type_.dtype, op.monoid)
            self.env[op.result] = self._held(op, part)

    def _place(self, op: Collective) -> None:
        producer = op.cause.producer
        if op.cause.consumer is not None:
            producer = op.cause.consumer
        ops = self.program.program.ops
        self.at(ops[producer].location if producer is not None else Location())

    def _tied(self, op: Collective, ops: Sequence[Collective]) -> Ssa:
        """What a collective reads, behind a barrier if it waits, and others with it."""
        operand = self.env[op.operand]
        if op.after >= 0:
            both = (operand, self.env[op.after])
            operand, waited = self.op(BARRIER, both, [ssa.type for ssa in both])
            if self.policy.reads_through:
                self._waited.update({one.result: (op.after, waited) for one in ops})
        return operand

    def collective(self, op: Collective) -> None:
        self._place(op)
        operand, type_ = self._tied(op, [op]), self.program.types[op.result]
        if op.kind != SLICE:
            operand = carried(self, operand, op.monoid)
        made = self._emitted(op, operand, tensor(type_.shape, operand.type.dtype))
        made = restored(self, made, type_.dtype, op.monoid)
        self.env[op.result] = self._held(op, made)

    def _held(self, op: Collective, made: Ssa) -> Ssa:
        """What a collective made, behind a barrier if a policy asks for it."""
        if op.result in self._kept:
            return held_with_argument(self, made, self.env[self._kept[op.result]])
        if op.kind == "reduce_scatter" and self._loops and self.policy.holds_scatters:
            (made,) = self.op(BARRIER, (made,), (made.type,))
        return made

    def _emitted(self, op: Collective, operand: Ssa, type_: TensorType) -> Ssa:
        emit = {
            SLICE: self._all_slice,
            "all_gather": self._all_gather,
            "all_reduce": self._all_reduce,
            "reduce_scatter": self._reduce_scatter,
            "all_to_all": self._all_to_all,
            "collective_permute": self._permute,
            EXCHANGE: self._exchange,
        }[op.kind]
        return emit(op, operand, type_)

    def _all_slice(self, op: Collective, operand: Ssa, type_: TensorType) -> Ssa:
        if op.window is not None:
            extent, parts = op.window.extent, op.window.parts
            return window_of_whole(self, operand, op.dim, extent, parts)
        operand = pad_tiles(self, operand, op.dim, self._parts(op))
        index, whole = self.flat_index(op.axes), operand.type
        place = place_type(whole.shape[op.dim])
        size = constant(self, place, str(type_.shape[op.dim]))
        start = binary(self, "multiply", converted(self, index, place.dtype), size)
        starts = all_starts(self, whole, {op.dim: start})
        return sliced_at(self, operand, starts, type_.shape)

    def _parts(self, op: Collective) -> tuple[int, ...]:
        return tuple(self.mesh.axes[axis] for axis in op.axes)

    def _all_gather(self, op: Collective, operand: Ssa, type_: TensorType) -> Ssa:
        inner = self.policy.outer_tiles and is_inner(operand, op.dim)
        dim = 0 if inner else op.dim
        attrs = {"all_gather_dim": f"{dim} : i64", **self._group(op.axes)}
        equal, count = self._grown(operand.type, op, dim), math.prod(self._parts(op))
        (made,) = self.op("stablehlo.all_gather", (operand,), (equal,), attrs)
        made = joined(self, made, op.dim, count) if inner else made
        return cut_tiles(self, made, op.dim, type_.shape[op.dim], self._parts(op))

    def _grown(self, type_: TensorType, op: Collective, dim: int) -> TensorType:
        """A type with the tiles of all devices along a dimension."""
        shape = list(type_.shape)
        shape[dim] *= math.prod(self._parts(op))
        return type_.with_shape(tuple(shape))

    def _all_reduce(self, op: Collective, operand: Ssa, type_: TensorType) -> Ssa:
        region = (reducer(op.monoid, type_.dtype),)
        attrs = self._group(op.axes)
        return self.op("stablehlo.all_reduce", (operand,), (type_,), attrs, region)[0]

    def _reduce_scatter(self, op: Collective, operand: Ssa, type_: TensorType) -> Ssa:
        region = (reducer(op.monoid, type_.dtype),)
        operand = pad_tiles(self, operand, op.dim, self._parts(op))
        inner = self.policy.outer_tiles and is_inner(operand, op.dim)
        dim = op.dim
        if inner:
            operand = parted(self, operand, op.dim, math.prod(self._parts(op)))
            dim = 0
        attrs = {"scatter_dimension": f"{dim} : i64", **self._group(op.axes)}
        kind = "stablehlo.reduce_scatter"
        return self.op(kind, (operand,), (type_,), attrs, region)[0]

    def _all_to_all(self, op: Collective, operand: Ssa, type_: TensorType) -> Ssa:
        parts = self._parts(op)
        operand = pad_tiles(self, operand, op.to_dim, parts)
        equal = list(type_.shape)
        equal[op.dim] = operand.type.shape[op.dim] * math.prod(parts)
        whole = Ssa("", type_.with_shape(tuple(equal)))
        apart = is_inner(operand, op.to_dim) or is_inner(whole, op.dim)
        if self.policy.outer_tiles and apart:
            made = self._sent_apart(op, operand)
        else:
            made = self._sent(op, operand, whole.type, op.to_dim, op.dim)
        return cut_tiles(self, made, op.dim, type_.shape[op.dim], parts)

    def _sent_apart(self, op: Collective, operand: Ssa) -> Ssa:
        """Tiles sent one behind the other, and put in order where they arrive."""
        count = math.prod(self._parts(op))
        tiles = in_pieces(self, parted(self, operand, op.to_dim, count), count)
        made = self._sent(op, tiles, tiles.type, 0, 0)
        return joined(self, made, op.dim, count)

    def _sent(
        self, op: Collective, operand: Ssa, type_: TensorType, split: int, concat: int
    ) -> Ssa:
        attrs = {
            "split_dimension": f"{split} : i64",
            "concat_dimension": f"{concat} : i64",
            "split_count": f"{math.prod(self._parts(op))} : i64",
            **self._group(op.axes, global_ids=False),
        }
        return self.op("stablehlo.all_to_all", (operand,), (type_,), attrs)[0]

    def _exchange(self, op: Collective, operand: Ssa, type_: TensorType) -> Ssa:
        assert op.window is not None
        groups = replica_groups(self.mesh, op.axes)

        def send(part: Ssa, pairs: Sequence[tuple[int, int]]) -> Ssa:
            sources, targets = np.array(pairs).T
            devices = np.stack([groups[:, sources], groups[:, targets]], axis=-1)
            attrs = {
                "source_target_pairs": numbers_text(devices.reshape(-1, 2)),
                "channel_handle": self._next_channel(),
            }
            kind = "stablehlo.collective_permute"
            return self.op(kind, (part,), (part.type,), attrs)[0]

        place = self.flat_index(op.axes)
        return exchange(self, operand, op.dim, op.window, place, send)

    def _permute(self, op: Collective, operand: Ssa, type_: TensorType) -> Ssa:
        def pairs() -> np.ndarray:
            return permutation(self.mesh, op.axes, op.order)

        alias = alias_of("pairs", op.axes, op.order)
        attrs = {
            "source_target_pairs": self._dense(alias, pairs),
            "channel_handle": self._next_channel(),
        }
        return self.op("stablehlo.collective_permute", (operand,), (type_,), attrs)[0]

    def _group(self, axes: tuple[str, ...], global_ids: bool = True) -> dict[str, str]:
        if self.mesh.size > DENSE_LIMIT and GROUPS_BY_AXES:
            groups = self._by_axes(axes)
        else:
            alias = alias_of("groups", axes)
            groups = self._dense(alias, lambda: replica_groups(self.mesh, axes))
        attrs = {"replica_groups": groups, "channel_handle": self._next_channel()}
        return {**attrs, "use_global_device_ids": "unit"} if global_ids else attrs

    def _next_channel(self) -> str:
        number, self._channel = self._channel, self._channel + 1
        return f"#stablehlo.channel_handle<handle = {number}, type = 1>"

    def _by_axes(self, axes: tuple[str, ...]) -> str:
        """Replica groups spelled by mesh axes."""
        alias = alias_of("axes", axes)
        if alias not in self.aliases:
            self.aliases[alias] = groups_by_axes(self.mesh, axes)
        return alias

    def _dense(self, alias: str, make: Callable[[], np.ndarray]) -> str:
        """Numbers of devices under an alias, made once."""
        if alias not in self.aliases:
            self.aliases[alias] = numbers_text(make())
        return alias
