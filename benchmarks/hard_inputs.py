"""Long modules, many calls, corrupt files: what they take, and that nothing breaks.

    python -m benchmarks.hard_inputs [--ops 100000] [--calls 1000] [--corrupt 300]

`--ops`: a module of so many ops, each of which reads the one before, is read,
partitioned, exported and proved. `--calls`: so many programs, no two alike, are
partitioned and proved one after the other; memory is looked at half way and in the end.
`--corrupt`: so many modules as text, gzip and bytecode, each with a few wrong bytes or
cut short, are read or refused. Exits with 1 if anything but a PartirError is raised.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator

import jax
import jax.numpy as jnp

import partir
from partir.frontend.bytecode import to_bytecode
from partir.ir.core import Signature

KINDS = ("add", "multiply", "subtract", "maximum")
ROWS = partir.ManualPartition({"arg0": 0}, axis="B")


def chain(count: int, size: int = 8) -> str:
    """A module whose ops each read the one before."""
    type_ = f"tensor<{size}xf32>"
    lines = [
        f"%{n + 1} = stablehlo.{KINDS[n % 4]} %{n or 'x'}, %x : {type_}"
        for n in range(count)
    ]
    head = f"func.func @main(%x: {type_}) -> {type_} {{"
    return "\n".join([head, *lines, f"return %{count} : {type_}", "}"])


def peak_megabytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def long_module(count: int) -> Iterator[str]:
    """Each stage with its time, and the memory so far."""
    clock = time.perf_counter()

    def lap(stage: str) -> str:
        nonlocal clock
        seconds, clock = time.perf_counter() - clock, time.perf_counter()
        return f"  {stage}: {seconds:.1f} s, at most {peak_megabytes()} MB so far"

    text = chain(count)
    yield lap(f"{count} ops as text of {len(text) // 1_000_000} MB")
    program = partir.load(text)
    yield lap("read")
    p = partir.partition(program, {"B": 4}, [ROWS])
    yield lap("partitioned")
    p.stablehlo()
    yield lap("exported")
    proof = p.verify()
    yield lap(f"proved, {len(proof.proved)} of 1 results")


def many_calls(count: int) -> Iterator[str]:
    """Programs of different sizes and lengths, and what is left of them."""
    for number in range(count):
        text = chain(3 + number % 7, 4 * (number + 1))
        partir.partition(partir.load(text), {"B": 4}, [ROWS]).verify()
        if number + 1 in (count // 2, count):
            gc.collect()
            yield (
                f"  after {number + 1} calls: {peak_megabytes()} MB at most, "
                f"{len(Signature.known())} signatures, {len(gc.get_objects())} objects"
            )


def corrupted(data: bytes, rng: random.Random) -> bytes:
    """A few wrong bytes, or cut short."""
    if rng.random() < 0.25:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def corrupt_modules(count: int) -> Counter[tuple[str, str]]:
    """What came of modules in each form."""

    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        def body(c: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jnp.tanh(c @ w), None

        return jax.lax.scan(body, x, None, length=3)[0].sum()

    x = jax.ShapeDtypeStruct((8, 8), "float32")
    text = jax.jit(step).lower(x, x).as_text()
    forms = {"text": text.encode(), "bytecode": to_bytecode(text)}
    forms["gzip"] = gzip.compress(forms["text"])
    found: Counter[tuple[str, str]] = Counter()
    for number in range(count):
        rng = random.Random(number)
        form = rng.choice(sorted(forms))
        try:
            partir.load(corrupted(forms[form], rng))
            outcome = "read"
        except partir.PartirError:
            outcome = "refused"
        except Exception as error:
            outcome = f"raised {type(error).__name__}"
        found[form, outcome] += 1
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Hard inputs.")
    parser.add_argument("--ops", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--corrupt", type=int, default=300)
    options = parser.parse_args(argv)
    print("many calls")
    for line in many_calls(options.calls):
        print(line, flush=True)
    print("a long module")
    for line in long_module(options.ops):
        print(line, flush=True)
    print("corrupt modules")
    found = corrupt_modules(options.corrupt)
    for (form, outcome), number in sorted(found.items()):
        print(f"  {form} {outcome}: {number}")
    return 1 if any(outcome.startswith("raised") for _, outcome in found) else 0


if __name__ == "__main__":
    sys.exit(main())
