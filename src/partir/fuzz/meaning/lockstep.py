"""What a device-local module means: all devices in lockstep, as a one-device program.

Every op is there once per device, on that device's values; a collective becomes what it
says of them: concatenations, slices, sums. So the very module that would run can be
interpreted op by op, its replica groups and channels included. A loop or branch of all
devices goes by the first one's condition, as devices that meet in collectives must.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir

from partir.errors import PartirError
from partir.fuzz.meaning.parsing import parsed
from partir.fuzz.meaning.safe import splat

Copies = list[Any]  # a value on each device
_CONTROL = ("stablehlo.while", "stablehlo.case", "stablehlo.if")


def lockstep(text: str, devices: int) -> Any:
    """The module whose `main` takes and returns each value of all devices in turn.

    Arguments and results are ordered by value, then by device.
    """
    module = parsed(text)
    with module.context, ir.Location.unknown():
        _Lockstep(module, devices).run()
        module.operation.verify()
    return module


class _Lockstep:
    def __init__(self, module: Any, devices: int) -> None:
        self.module, self.devices = module, range(devices)
        self.env: dict[Any, Copies] = {}

    def run(self) -> None:
        (main,) = [
            op
            for op in self.module.body.operations
            if ir.StringAttr(op.attributes["sym_name"]).value == "main"
        ]
        source = main.regions[0].blocks[0]
        function = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        types = ir.FunctionType.get(
            self._types(function.inputs), self._types(function.results)
        )
        attrs = {
            "sym_name": ir.StringAttr.get("main"),
            "function_type": ir.TypeAttr.get(types),
        }
        at = ir.InsertionPoint(self.module.body)
        made = ir.Operation.create("func.func", attributes=attrs, regions=1, ip=at)
        self._block(made.regions[0], source, "func.return")
        main.operation.erase()

    def _types(self, types: Sequence[Any]) -> list[Any]:
        return [type_ for type_ in types for _ in self.devices]

    def _block(self, region: Any, source: Any, terminator: str) -> None:
        types = self._types([a.type for a in source.arguments])
        places = [ir.Location.unknown()] * len(types)
        block = region.blocks.append(*types, arg_locs=places)
        self._bind(source.arguments, list(block.arguments))
        with ir.InsertionPoint(block):
            yielded: list[Any] = []
            for op in source.operations:
                op = op.operation
                if op.name in ("func.return", "stablehlo.return"):
                    yielded = self._flat(op.operands)
                else:
                    self._op(op)
            ir.Operation.create(terminator, operands=yielded)

    def _bind(self, values: Sequence[Any], flat: Sequence[Any]) -> None:
        count = len(self.devices)
        for number, value in enumerate(values):
            self.env[value] = list(flat[number * count : (number + 1) * count])

    def _flat(self, values: Sequence[Any]) -> list[Any]:
        return [copy for value in values for copy in self.env[value]]

    # Ops

    def _op(self, op: Any) -> None:
        special = _COLLECTIVES.get(op.name)
        if special is not None:
            self.env[op.results[0]] = special(self, op, self.env[op.operands[0]])
        elif op.name == "stablehlo.partition_id":
            self.env[op.results[0]] = [
                splat(op.results[0].type, d, ir.InsertionPoint.current)
                for d in self.devices
            ]
        elif op.name in _CONTROL:
            self._control(op)
        else:
            self._copies(op)

    def _copies(self, op: Any) -> None:
        at = ir.InsertionPoint.current
        made = []
        for device in self.devices:
            copy = op.clone(at)
            for place, value in enumerate(op.operands):
                copy.operands[place] = self.env[value][device]
            made.append(copy)
        for number, result in enumerate(op.results):
            self.env[result] = [copy.results[number] for copy in made]

    def _control(self, op: Any) -> None:
        loops = op.name == "stablehlo.while"
        operands = self._flat(op.operands)
        made = ir.Operation.create(
            op.name,
            self._types([r.type for r in op.results]),
            operands if loops else operands[:1],
            {name: op.attributes[name] for name in op.attributes},
            regions=len(op.regions),
        )
        for number, (region, source) in enumerate(
            zip(made.regions, op.regions, strict=True)
        ):
            self._block(region, source.blocks[0], "stablehlo.return")
            if loops and number == 0:
                _keep_first(region.blocks[0])
        self._bind(op.results, list(made.results))

    # Collectives

    def groups(self, op: Any) -> list[list[int]]:
        """Devices that take part together."""
        found: list[list[int]] = np.array(op.attributes["replica_groups"]).tolist()
        if sorted(d for group in found for d in group) != list(self.devices):
            raise PartirError(f"{op.name} has replica groups {found}, not all devices")
        return found

    def in_groups(self, op: Any, make: Callable[[list[int], int], Any]) -> Copies:
        """What each device gets: `make` is told its group and its place there."""
        made: Copies = [None] * len(self.devices)
        for group in self.groups(op):
            for place, device in enumerate(group):
                made[device] = make(group, place)
        return made


def _keep_first(block: Any) -> None:
    """A loop's condition: one device's, of all devices' values."""
    terminator = block.operations[len(block.operations) - 1]
    first = terminator.operands[0]
    with ir.InsertionPoint(terminator):
        ir.Operation.create("stablehlo.return", operands=[first])
    terminator.operation.erase()


def _all_gather(state: _Lockstep, op: Any, copies: Copies) -> Copies:
    dim = _integer(op, "all_gather_dim")
    return state.in_groups(
        op, lambda group, _: _joined([copies[d] for d in group], dim)
    )


def _all_reduce(state: _Lockstep, op: Any, copies: Copies) -> Copies:
    return state.in_groups(
        op, lambda group, _: _reduced(op, [copies[d] for d in group])
    )


def _reduce_scatter(state: _Lockstep, op: Any, copies: Copies) -> Copies:
    dim = _integer(op, "scatter_dimension")

    def make(group: list[int], place: int) -> Any:
        whole = _reduced(op, [copies[d] for d in group])
        return _part(whole, dim, place, len(group))

    return state.in_groups(op, make)


def _all_to_all(state: _Lockstep, op: Any, copies: Copies) -> Copies:
    split, concat = _integer(op, "split_dimension"), _integer(op, "concat_dimension")

    def make(group: list[int], place: int) -> Any:
        parts = [_part(copies[d], split, place, len(group)) for d in group]
        return _joined(parts, concat)

    return state.in_groups(op, make)


def _permute(state: _Lockstep, op: Any, copies: Copies) -> Copies:
    pairs = np.array(op.attributes["source_target_pairs"]).tolist()
    sources = {target: source for source, target in pairs}
    type_ = op.results[0].type
    return [
        copies[sources[d]]
        if d in sources
        else splat(type_, 0, ir.InsertionPoint.current)
        for d in state.devices
    ]


_COLLECTIVES: dict[str, Callable[[_Lockstep, Any, Copies], Copies]] = {
    "stablehlo.all_gather": _all_gather,
    "stablehlo.all_reduce": _all_reduce,
    "stablehlo.reduce_scatter": _reduce_scatter,
    "stablehlo.all_to_all": _all_to_all,
    "stablehlo.collective_permute": _permute,
}

# Parts of them


def _integer(op: Any, name: str) -> int:
    return int(ir.IntegerAttr(op.attributes[name]).value)


def _joined(parts: list[Any], dim: int) -> Any:
    type_ = ir.RankedTensorType(parts[0].type)
    shape = list(type_.shape)
    shape[dim] *= len(parts)
    whole = ir.RankedTensorType.get(shape, type_.element_type)
    attrs = {"dimension": ir.Attribute.parse(f"{dim} : i64")}
    return ir.Operation.create("stablehlo.concatenate", [whole], parts, attrs).result


def _part(whole: Any, dim: int, place: int, count: int) -> Any:
    """One of `count` equal parts."""
    type_ = ir.RankedTensorType(whole.type)
    starts, limits = [0] * type_.rank, list(type_.shape)
    size = type_.shape[dim] // count
    starts[dim], limits[dim] = place * size, (place + 1) * size
    shape = [end - start for start, end in zip(starts, limits, strict=True)]
    bounds = {
        "start_indices": starts,
        "limit_indices": limits,
        "strides": [1] * type_.rank,
    }
    attrs: dict[str, Any] = {
        name: ir.DenseI64ArrayAttr.get(n) for name, n in bounds.items()
    }
    made = ir.RankedTensorType.get(shape, type_.element_type)
    return ir.Operation.create("stablehlo.slice", [made], [whole], attrs).result


def _reduced(op: Any, parts: list[Any]) -> Any:
    """All parts combined as the collective's region says, which is one op."""
    block = op.regions[0].blocks[0]
    kind = block.operations[0].operation.name
    if len(block.operations) != 2:
        raise PartirError(f"{op.name} reduces by more than one op")
    made = parts[0]
    for part in parts[1:]:
        made = ir.Operation.create(kind, [made.type], [made, part]).result
    return made
