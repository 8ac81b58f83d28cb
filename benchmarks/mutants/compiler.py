"""Mistakes in the compiler itself: one line of rules, lowering or rewrites changed.

    python -m benchmarks.mutants.compiler [--count 300] [--seed 0] [--seconds S]
                                         [--list]

Sites are drawn by seed among the lines that partitioning a few programs runs. Each
mutant is a process of its own: a comparison, a sign, a number or a condition is
another one, and the programs are partitioned again. *Refused*: the compiler itself
stops with an error. *No effect*: all device-local programs are the same. Of the others,
the first that differs is held against its source. What is proved all the same is run
beside the right one: *harmless* if all numbers are equal, else *missed*.
"""

from __future__ import annotations

import argparse
import ast
import gc
import multiprocessing
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

import partir
from benchmarks.mutants.numbers import close, whole_outputs
from benchmarks.mutants.programs import Prepared, named_programs
from benchmarks.tables import format_table
from partir.errors import PartirError
from partir.frontend.device_local import read_device_local

ROOT = Path(partir.__file__).parent
PARTS = ("rules", "spmd")
PROGRAMS = ("mlp BP+MP+Z3", "windows", "shifts", "uneven", "moves")
SECONDS = 8  # of processor time, for one mutant
VERDICTS = ("no effect", "refused", "disproved", "not proved", "harmless", "missed")


class Site(NamedTuple):
    """A place in a function that gets a mistake."""

    path: Path
    line: int  # of the function
    name: str
    number: int  # of the place, among the function's

    def __str__(self) -> str:
        """For lists."""
        where = self.path.relative_to(ROOT)
        return f"{where}:{self.line} {self.name}, place {self.number}"


def _compare(node: ast.Compare) -> None:
    others = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
    others |= {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn}  # type: ignore[dict-item]
    others |= {ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}  # type: ignore[dict-item]
    node.ops[0] = others[type(node.ops[0])]()  # type: ignore[index]


def _binary(node: ast.BinOp) -> None:
    others: dict[Any, Any] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mod: ast.Mult}
    others |= {ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitOr: ast.BitAnd}
    node.op = others.get(type(node.op), ast.Add)()


def _boolean(node: ast.BoolOp) -> None:
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _constant(node: ast.Constant) -> None:
    if isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node.value, int):
        node.value += 1


def _condition(node: ast.IfExp) -> None:
    node.body, node.orelse = node.orelse, node.body


CHANGES: dict[type[ast.AST], Callable[[Any], None]] = {
    ast.Compare: _compare,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Constant: _constant,
    ast.IfExp: _condition,
}


def _places(function: ast.AST) -> list[ast.AST]:
    """Nodes of a function that can be changed, types and texts apart."""
    found = []
    for statement in function.body:  # type: ignore[attr-defined]
        for node in ast.walk(statement):
            number = isinstance(node, ast.Constant) and isinstance(node.value, int)
            if type(node) in CHANGES and (number or not isinstance(node, ast.Constant)):
                found.append(node)
    return found


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node


def _first_line(function: ast.FunctionDef) -> int:
    """With its decorators, as code objects count."""
    return min((d.lineno for d in function.decorator_list), default=function.lineno)


def sites(used: set[tuple[str, int]]) -> list[Site]:
    """All places of the functions that were used."""
    found = []
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            for function in _functions(ast.parse(path.read_text())):
                first = _first_line(function)
                if (str(path), first) in used:
                    count = len(_places(function))
                    found += [Site(path, first, function.name, n) for n in range(count)]
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def inject(site: Site) -> bool:
    """Put the mistake into the functions that are alive; False if there is none."""
    tree = ast.parse(site.path.read_text())
    for function in _functions(tree):
        first = min(
            (d.lineno for d in function.decorator_list), default=function.lineno
        )
        if first == site.line and function.name == site.name:
            node = _places(function)[site.number]
            CHANGES[type(node)](node)
    made = compile(ast.fix_missing_locations(tree), str(site.path), "exec")
    (code,) = [
        c
        for c in _codes(made)
        if c.co_firstlineno == site.line and c.co_name == site.name
    ]
    alive = [
        f
        for f in gc.get_objects()
        if isinstance(f, FunctionType)
        and f.__code__.co_filename == str(site.path)
        and f.__code__.co_firstlineno == site.line
        and f.__code__.co_name == site.name
    ]
    for found in alive:
        found.__code__ = code
    return bool(alive)


def _texts() -> dict[str, str]:
    return {name: done.stablehlo() for name, done in _all()}


@cache
def _traced() -> tuple[tuple[str, Prepared], ...]:
    """Programs to partition: traced once, before any of the compiler has run."""
    found = [named for name in PROGRAMS for named in named_programs(name)]
    return tuple((name, make()) for name, make in found)


def _all() -> Iterator[tuple[str, Any]]:
    for name, prepared in _traced():
        yield name, prepared.partitioned()


def _used(_: Any) -> tuple[set[tuple[str, int]], dict[str, str], dict[str, Any]]:
    """The functions that partitioning runs, the texts that it makes, and numbers."""
    used: set[tuple[str, int]] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            used.add((code.co_filename, code.co_firstlineno))

    sys.setprofile(note)
    texts = _texts()
    sys.setprofile(None)
    numbers = {
        name: whole_outputs(done, read_device_local(texts[name]), 1)
        for name, done in _all()
    }
    return used, texts, numbers


def _judge(site: Site, texts: dict[str, str], numbers: dict[str, Any]) -> str:
    inject(site)
    try:
        for name, done in _all():
            text = done.stablehlo()
            if text != texts[name]:
                return _verdict(done, text, numbers[name])
    except (PartirError, AssertionError, LookupError, TypeError, ValueError):
        return "refused"
    except (ArithmeticError, AttributeError, RecursionError, RuntimeError):
        return "refused"
    return "no effect"


def _verdict(done: Any, text: str, wanted: list[np.ndarray]) -> str:
    proof = done.proof(text)
    if proof.not_proved:
        return "disproved" if proof.disproved else "not proved"
    found = whole_outputs(done, read_device_local(text), 1)
    return "harmless" if all(map(close, wanted, found)) else "missed"


def _child(run: Callable[..., Any], args: tuple[Any, ...], pipe: Any) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    pipe.send(run(*args))
    pipe.close()


def apart(run: Callable[..., Any], *args: Any) -> Any:
    """A call in a process of its own; None if it died."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(run, args, there))
    process.start()
    there.close()
    try:
        found = here.recv()
    except EOFError:
        found = None
    process.join()
    return found


def main(argv: list[str] | None = None) -> int:
    """Change, partition, judge and count; 1 if a mistake is missed."""
    parser = argparse.ArgumentParser(description="Mistakes in the compiler.")
    parser.add_argument("--count", type=int, default=300, help="with an effect (300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="at most")
    parser.add_argument("--list", action="store_true", help="every site and verdict")
    options = parser.parse_args(argv)
    _traced()
    used, texts, numbers = apart(_used, None)
    possible = sites(used)
    random.Random(options.seed).shuffle(possible)
    counts: Counter[str] = Counter()
    begin = time.monotonic()
    for site in possible:
        done = sum(counts.values()) - counts["no effect"] >= options.count
        if done or time.monotonic() - begin > options.seconds:
            break
        verdict = apart(_judge, site, texts, numbers) or "refused"
        counts[verdict] += 1
        if options.list or verdict in ("harmless", "missed"):
            print(f"{verdict}: {site}", flush=True)
    total = sum(counts.values())
    rows = [(verdict, counts[verdict]) for verdict in VERDICTS]
    print(
        format_table(("of the compiler's mutants", "number"), [*rows, ("all", total)])
    )
    return 1 if counts["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
