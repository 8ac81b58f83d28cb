"""Carried state: results that succeed arguments and therefore lie as they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partir.errors import PartitionError, nearest
from partir.frontend.arguments import Call
from partir.ir.core import Port, Tie

Shapes = dict[str, tuple[Any, Any]]


def carry_ties(
    call: Call,
    arguments: Sequence[Port],
    results: Sequence[Port],
    result_avals: Sequence[Any],
    carry: Mapping[str, str] | None,
) -> list[Tie]:
    """Ties from results to the arguments that they succeed.

    As `carry` says, by names of subtrees; by default, a donated argument whose tree,
    shapes and dtypes equal one result's.
    """
    found = {
        r.name: (a.shape, a.dtype) for r, a in zip(results, result_avals, strict=True)
    }
    if carry is None:
        carry = _default_carry(call, found)
    _require_names(carry)
    found |= {
        name: (aval.shape, aval.dtype)
        for name, aval in zip(call.names, call.avals, strict=True)
    }
    ties = []
    for result, argument in carry.items():
        ties += _tie_subtrees(result, argument, arguments, results, found)
    return ties


def _require_names(carry: Any) -> None:
    """A mapping from names to names."""
    named = isinstance(carry, Mapping) and all(
        isinstance(name, str) for pair in carry.items() for name in pair
    )
    if not named:
        raise PartitionError(
            "carry= says which argument each result succeeds, both by name, as in "
            f'carry={{"out/0": "params"}}; got {carry!r}'
        )


def _require_equal(asked: str, source: Port, target: Port, shapes: Shapes) -> None:
    """What goes in again must be what came out."""
    before, after = (shapes.get(port.name) for port in (target, source))
    if before is None or after is None or before == after:
        return
    shown = [f"{dtype}[{','.join(map(str, dims))}]" for dims, dtype in (after, before)]
    raise PartitionError(
        f'{asked}: result "{source.name}" is {shown[0]}, but argument '
        f'"{target.name}", which it is to succeed, is {shown[1]}'
    )


def _tie_subtrees(
    result: str,
    argument: str,
    arguments: Sequence[Port],
    results: Sequence[Port],
    shapes: Shapes,
) -> list[Tie]:
    asked = f'carry={{"{result}": "{argument}"}}'
    sources, targets = _below(result, results), _below(argument, arguments)
    for name, found, ports, kind in (
        (result, sources, results, "result"),
        (argument, targets, arguments, "argument"),
    ):
        if not found:
            close = nearest(name, [port.name for port in ports])
            raise PartitionError(
                f'{asked}: there is no {kind} "{name}"; nearest: {close}'
            )
    if sources.keys() != targets.keys():
        odd = sorted(sources.keys() ^ targets.keys())[0].lstrip("/")
        where = argument if "/" + odd in targets else result
        raise PartitionError(
            f'{asked}: their trees differ: "{odd or "the leaf itself"}" is only in '
            f'"{where}"'
        )
    for key, source in sources.items():
        _require_equal(asked, source, targets[key], shapes)
    return [
        Tie((source.value,), (targets[key].value,))
        for key, source in sources.items()
        if source.value != targets[key].value
    ]


def _below(name: str, ports: Sequence[Port]) -> dict[str, Port]:
    found = {}
    for port in ports:
        if port.name == name or port.name.startswith(name + "/"):
            found[port.name[len(name) :]] = port
    return found


def _default_carry(call: Call, results: Shapes) -> dict[str, str]:
    pairs: dict[str, str] = {}
    subtrees = _subtrees(results)
    for number, argument in enumerate(call.argument_names):
        leaves = [i for i, owner in enumerate(call.arguments) if owner == number]
        if not leaves or not call.donated[leaves[0]]:
            continue
        wanted = {
            call.names[i][len(argument) :]: (call.avals[i].shape, call.avals[i].dtype)
            for i in leaves
        }
        matches = [n for n, s in subtrees.items() if s == wanted and n not in pairs]
        outer = [n for n in matches if n.count("/") <= 1]
        if outer or len(matches) == 1:  # deeper inside, only what can't be mistaken
            pairs[(outer or matches)[0]] = argument
    return pairs


def _subtrees(results: Shapes) -> dict[str, Shapes]:
    """The whole result and every part of it, outer ones first."""
    groups: dict[str, Shapes] = {}
    for name, shape in results.items():
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):
            top = "/".join(parts[:depth])
            groups.setdefault(top, {})[name[len(top) :]] = shape
    return dict(sorted(groups.items(), key=lambda item: item[0].count("/")))
