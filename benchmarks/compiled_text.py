"""What a compiler made of a program, read from its final, scheduled text.

A collective is counted once however often it is printed (an asynchronous one has a
start, a done and a computation of its own, all of one channel), and as often as the
loops around it run. Bytes are those that one device sends by ring algorithms, as in
`SpmdProgram.bytes_communicated`.

The compiler for TPUs does many reduce-scatters in a fusion of an all-reduce and a
slice of it. Such a fusion is counted as what it does: its emitter is called
AllReduceScatterFusion, its strategy a ring or a torus, and it makes a part of the sum.

It also says nowhere how often a loop runs. That is read from the loop itself: where its
counter begins, and where its condition ends it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_KINDS = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
)
# Of what is sent, as a share of the whole: a gather sends all but its own part.
_FACTORS = {"all-reduce": 2.0}
_BITS = {"pred": 8, "token": 0, "u4": 4, "s4": 4}
_OP = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)$")
_HEADER = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,]*)\]")
_CALLED = re.compile(r"(?:calls|to_apply|called_computations)=\{?%([\w.-]+)")
_LOOP = re.compile(r"(?:body|condition)=%([\w.-]+)")
_CONDITION = re.compile(r"condition=%([\w.-]+)")
_INDEX = re.compile(r"index=(\d+)")
_NUMBER = re.compile(r"^(-?\d+)\)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_NAME = re.compile(r"%([\w.-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_CHANNEL = re.compile(r"channel_id=(\d+)")
_GROUPS = re.compile(r"replica_groups=(?:\{\{([\d,]*)\}|\[(\d+),(\d+)\])")
_MESH = re.compile(
    r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\(\S*\))? \{([^}]*)\}"
)
_AXIS = re.compile(r"'(\w+)'(?:=(\d+)|:\(\d+\)(\d+))?")  # an axis, or a part of one
_SCATTERING = "all-reduce-scatter"  # what such a fusion's computation is called


@dataclass(frozen=True)
class Op:
    """A line of the text."""

    name: str
    type: str
    kind: str
    rest: str

    @property
    def bytes(self) -> list[int]:
        """Of each array in its type."""
        return [_bytes(*found) for found in _ARRAY.findall(self.type)]


@dataclass(frozen=True)
class Sent:
    """A collective: what kind, how many bytes a device sends, how often."""

    kind: str
    bytes: float
    times: int


class CompiledText:
    """Collectives and cycles of a compiled program."""

    def __init__(self, text: str) -> None:
        """Read the text, computation by computation."""
        self.computations: dict[str, list[Op]] = {}
        self.entry = ""
        ops: list[Op] = []
        for line in text.splitlines():
            header = _HEADER.match(line)
            if header:
                ops = self.computations[header[2]] = []
                self.entry = header[2] if header[1] else self.entry
            elif found := _OP.match(line):
                ops.append(Op(*found.groups()))

    @property
    def collectives(self) -> dict[str, int]:
        """Executed counts by kind, loops multiplied."""
        counts: Counter[str] = Counter()
        for sent in self._sent().values():
            counts[sent.kind] += sent.times
        return dict(sorted(counts.items()))

    @property
    def bytes_sent(self) -> float:
        """By one device in one call."""
        return sum(sent.bytes * sent.times for sent in self._sent().values())

    @property
    def cycles(self) -> int:
        """The compiler's own estimate (for TPUs), loops multiplied."""
        return sum(
            times * sum(map(int, _CYCLES.findall(op.rest)))
            for op, times in self._walk(self.entry, 1, fusions=False)
        )

    @property
    def copies(self) -> int:
        """Copies and transposes that run as ops of their own, loops multiplied."""
        return sum(
            times
            for op, times in self._walk(self.entry, 1, fusions=False)
            if op.kind in ("copy", "copy-start", "transpose")
        )

    def _sent(self) -> dict[str, Sent]:
        found: dict[str, Sent] = {}
        scattering = {
            op.name
            for name, ops in self.computations.items()
            for op in ops
            if name.startswith(_SCATTERING)
        }
        for op, times in self._walk(self.entry, 1, fusions=True):
            kind = op.kind.removesuffix("-start")
            if kind in _KINDS:
                sent = Sent(kind, _sent_bytes(op, kind), times)
                if op.name in scattering and kind == "all-reduce":
                    sent = Sent("reduce-scatter", sent.bytes / 2, times)
                key = _key(op, kind)
                if key not in found or sent.bytes > found[key].bytes:
                    found[key] = sent
        return found

    def _walk(self, name: str, times: int, fusions: bool) -> Iterator[tuple[Op, int]]:
        """Every op that is run, with how often; those inside fusions if wanted."""
        for op in self.computations.get(name, ()):
            yield op, times
            if op.kind == "while":
                count = times * self._trips(name, op)
                for one in _LOOP.findall(op.rest):
                    yield from self._walk(one, count, fusions)
            if op.kind == "fusion" and not fusions:
                continue
            called = _CALLED.findall(op.rest)
            called += _NAME.findall("".join(_BRANCHES.findall(op.rest)))
            for one in called:
                yield from self._walk(one, times, fusions)

    def _trips(self, name: str, loop: Op) -> int:
        """How often a loop of this computation runs; once if that is not known."""
        if said := _TRIPS.search(loop.rest):
            return int(said[1])
        condition = _CONDITION.search(loop.rest)
        test = {op.name: op for op in self.computations.get(_first(condition), ())}
        compared = [op for op in test.values() if op.kind == "compare"]
        if len(compared) != 1 or "direction=LT" not in compared[0].rest:
            return 1
        counter, limit = (test.get(one) for one in _operands(compared[0])[:2])
        index = _INDEX.search(counter.rest) if counter else None
        if index is None:
            return 1
        end = _number(limit)
        begin = _number(self._handed(name, loop, int(index[1])))
        return 1 if begin is None or end is None else max(end - begin, 0)

    def _handed(self, name: str, loop: Op, index: int) -> Op | None:
        """What a loop's value of this number begins as, behind copies."""
        ops = {op.name: op for op in self.computations[name]}
        values = ops.get(_operands(loop)[0])
        found = ops.get(_operands(values)[index]) if values else None
        while found is not None and found.kind == "copy":
            found = ops.get(_operands(found)[0])
        return found


def _first(found: re.Match[str] | None) -> str:
    return found[1] if found else ""


def _number(op: Op | None) -> int | None:
    """What a constant is."""
    found = _NUMBER.search(op.rest) if op and op.kind == "constant" else None
    return int(found[1]) if found else None


def _operands(op: Op) -> list[str]:
    """Names of what an op reads."""
    return _NAME.findall(op.rest.split(")", 1)[0])


def _key(op: Op, kind: str) -> str:
    """Equal for the several lines of one collective; permutes may share a channel."""
    channel = _CHANNEL.search(op.rest)
    return channel[1] if channel and kind != "collective-permute" else op.name


def _sent_bytes(op: Op, kind: str) -> float:
    sizes, group = op.bytes, _group_size(op.rest)
    if op.kind.endswith("-start") and kind != "all-reduce":
        sizes = sizes[len(sizes) // 2 :]  # operands come first, then results
    whole = float(sum(sizes))
    if kind == "collective-permute":
        return max(op.bytes, default=0)
    if kind == "reduce-scatter":
        whole *= group
    return _FACTORS.get(kind, 1.0) * whole * (group - 1) / max(group, 1)


def _group_size(rest: str) -> int:
    if mesh := _MESH.search(rest):
        sizes = {axis: size for axis, size, _ in _AXIS.findall(mesh[1])}
        used = _AXIS.findall(mesh[2])
        return math.prod(int(part or sizes[axis]) for axis, _, part in used)
    found = _GROUPS.search(rest)
    if not found:
        return 1
    return int(found[3]) if found[3] else len(found[1].split(","))


def _bytes(dtype: str, dims: str) -> int:
    digits = re.search(r"\d+", dtype)
    bits = _BITS.get(dtype, int(digits[0]) if digits else 0)
    return math.prod(int(n) for n in dims.split(",") if n) * bits // 8
