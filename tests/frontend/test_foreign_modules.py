"""Modules from anywhere: read rightly or refused with a reason; nothing crashes."""

from __future__ import annotations

import gzip
import random
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import partir
from partir.frontend import trial_read
from partir.frontend.bytecode import to_bytecode
from partir.frontend.foreign_modules import MOST_NESTED

TYPE = "tensor<4xf32>"


def _main(body: str, type_: str = TYPE) -> str:
    return f"func.func @main(%x: {type_}) -> {type_} {{\n{body}\n}}"


CALL = f"%0 = call @{{}}(%x) : ({TYPE}) -> {TYPE}\nreturn %0 : {TYPE}"
REFUSED = {
    "nothing": ("\n", "has no function to partition"),
    "no function": ("module {}", "has no function to partition"),
    "a declaration": (
        f"func.func private @main(%x: {TYPE}) -> {TYPE}\n",
        "is declared and has no body",
    ),
    "half a module": (_main(f"return %x : {TYPE}")[:-3], "not a StableHLO module"),
    "a null": ("func.func @main() {\0}\n", "not a StableHLO module"),
    "half a character": ("func.func @main() {\ud800}", "surrogates not allowed"),
    "a dynamic shape": (
        _main("return %x : tensor<?xf32>", "tensor<?xf32>"),
        "lower the program for concrete shapes",
    ),
    "a tensor without a rank": (
        _main("return %x : tensor<*xf32>", "tensor<*xf32>"),
        "values of type tensor<*xf32> can't be partitioned",
    ),
    "memory": (
        _main("return %x : memref<4xf32>", "memref<4xf32>"),
        "values of type memref<4xf32> can't be partitioned",
    ),
    "an unknown dialect": (
        _main(f'%0 = "my.op"(%x) : ({TYPE}) -> {TYPE}\nreturn %0 : {TYPE}'),
        "unregistered dialect",
    ),
    "an unknown type": (_main("return %x : !my.type", "!my.type"), "unregistered"),
    "branches between blocks": (
        _main(f"cf.br ^next\n^next:\nreturn %x : {TYPE}"),
        "@main has branches between blocks",
    ),
    "a function of itself": (
        _main(CALL.format("main")),
        "functions that call themselves can't be partitioned: @main -> @main",
    ),
    "functions of each other": (
        f"{_main(CALL.format('other'))}\n"
        f"func.func private @other(%x: {TYPE}) -> {TYPE} {{\n{CALL.format('main')}\n}}",
        "call themselves can't be partitioned: @",
    ),
    "brackets": ("[" * 100_000 + "\n", f"over {MOST_NESTED} deep"),
    "brackets of types": (
        _main(f"return %x : {'tuple<' * 5000}", "tuple<" * 5000),
        f"over {MOST_NESTED} deep",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(name: str) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(partir.PartitionError) as raised:
        partir.load(text)
    assert reason in str(raised.value)


def test_brackets_in_strings_are_none() -> None:
    noted = f'attributes {{note = "{"(" * 5000}"}}'
    text = f"func.func @main(%x: {TYPE}) -> {TYPE} {noted} {{\nreturn %x : {TYPE}\n}}"
    assert len(partir.load(text).arguments) == 1


def test_calls_within_calls_without_end_of_the_stack() -> None:
    """A chain of functions, each of which calls the next; then too long a one."""

    def chain(length: int) -> str:
        functions = [_main(CALL.format("f1"))]
        functions += [
            f"func.func private @f{n}(%x: {TYPE}) -> {TYPE} {{\n"
            + (CALL.format(f"f{n + 1}") if n < length else f"return %x : {TYPE}")
            + "\n}"
            for n in range(1, length + 1)
        ]
        return "\n".join(functions)

    assert partir.load(chain(30)).ops == ()
    with pytest.raises(partir.PartitionError, match="nested too deeply"):
        partir.load(chain(2000))


def test_a_long_module_needs_no_deep_stack() -> None:
    """Each op reads the one before: recursion over values would end at a thousand."""
    count = 3000
    lines = [
        f"%{n + 1} = stablehlo.{('add', 'multiply')[n % 2]} %{n}, %x : {TYPE}"
        for n in range(count)
    ]
    lines[0] = f"%1 = stablehlo.add %x, %x : {TYPE}"
    program = partir.load(_main("\n".join([*lines, f"return %{count} : {TYPE}"])))
    rows = partir.ManualPartition({"arg0": 0}, axis="B")
    p = partir.partition(program, {"B": 2}, [rows])
    assert len(program.ops) == count
    assert p.verify().proved == ("out",)
    assert p.core_text().count("loop") == count


def test_no_elements() -> None:
    def f(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w), (x @ w).sum(0), jnp.concatenate([x, x])

    x, w = np.zeros((8, 0), np.float32), np.zeros((0, 4), np.float32)
    rows = partir.ManualPartition({"x": 0}, axis="B")
    run = partir.jit(f, {"B": 4}, [rows])
    for have, want in zip(run(x, w), f(x, w), strict=True):
        np.testing.assert_array_equal(have, want)
    nothing = partir.ManualPartition({"w": 0}, axis="B")
    with pytest.raises(partir.PartitionError, match=r"w is float32\[0,4\]"):
        partir.partition(f, {"B": 4}, [nothing], args=(x, w))


def test_a_huge_constant() -> None:
    """It is not copied per use, nor kept when its program is gone."""
    data = np.arange(1 << 18, dtype=np.float32)
    text = (
        f"func.func @main(%x: tensor<{data.size}xf32>) -> tensor<{data.size}xf32> {{\n"
        f'%0 = stablehlo.constant dense<"0x{data.tobytes().hex()}"> : '
        f"tensor<{data.size}xf32>\n"
        f"%1 = stablehlo.add %x, %0 : tensor<{data.size}xf32>\n"
        f"%2 = stablehlo.multiply %1, %0 : tensor<{data.size}xf32>\n"
        f"return %2 : tensor<{data.size}xf32>\n}}"
    )
    rows = partir.ManualPartition({"arg0": 0}, axis="B")
    p = partir.partition(partir.load(text), {"B": 4}, [rows])
    (made,) = p.compile()(np.ones_like(data))
    np.testing.assert_array_equal(made, (data + 1) * data)


# Corrupted on the way


@cache
def module() -> Any:
    def f(x: Any, w: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            return jnp.tanh(c @ w), None

        return jax.lax.scan(body, x, None, length=3)[0].sum()

    x = jax.ShapeDtypeStruct((8, 8), "float32")
    return jax.jit(f).lower(x, x)


@cache
def bytecode() -> bytes:
    """Portable bytecode, with a name in it that can be found again."""
    named = 'func.func @main(%x: tensor<4xf32> loc("named_here")) -> tensor<4xf32>'
    body = "%0 = stablehlo.tanh %x : tensor<4xf32>\nreturn %0 : tensor<4xf32>"
    return to_bytecode(f"{named} {{\n{body}\n}}")


def read(source: str | bytes) -> bool:
    """Whether a module is read; whatever else happens must be a refusal."""
    try:
        partir.load(source)
    except partir.PartirError:
        return False
    return True


@settings(max_examples=60)
@given(st.data())
def test_corrupt_text(data: st.DataObject) -> None:
    text = module().as_text()
    way = data.draw(st.sampled_from(["cut", "twice", "another", "swapped"]))
    start, end = sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
    if way == "cut":
        text = text[:start] + text[end:]
    elif way == "twice":
        text = text[:end] + text[start:]
    elif way == "another":
        text = text[:start] + data.draw(st.characters()) + text[start + 1 :]
    else:
        text = text[:start] + text[start:end][::-1] + text[end:]
    read(text + "\n")


def test_corrupt_gzip() -> None:
    whole = gzip.compress(module().as_text().encode())
    assert read(whole)
    for end in (3, 12, len(whole) // 2, len(whole) - 1):
        assert not read(whole[:end])
    rng = random.Random(0)
    for _ in range(50):
        changed = bytearray(whole)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        read(bytes(changed))


def test_names_that_are_no_text_are_refused() -> None:
    """MLIR takes any bytes; its bindings would end the process on showing them."""
    assert read(bytecode())
    corrupt = bytecode().replace(b"named_here", b"named_\xff\xfe\x00\x80")
    with pytest.raises(partir.PartitionError, match="names that are no text"):
        partir.load(corrupt)


def test_reasons_that_are_no_text_are_not_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    corrupt = bytecode().replace(b"stablehlo", b"stab\xfeehlo")
    with pytest.raises(partir.PartitionError, match=r"corrupt|unknown"):
        partir.load(corrupt)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("end", [3, 40, 0.5, 0.99])
def test_truncated_bytecode(end: float) -> None:
    whole = bytecode()
    assert not read(whole[: int(end if end > 1 else end * len(whole))])


@pytest.mark.parametrize("seed", range(4))
def test_corrupt_bytecode(seed: int) -> None:
    rng = random.Random(seed)
    changed = bytearray(bytecode())
    for _ in range(3):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    read(bytes(changed))


def test_what_ends_a_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytecode is read in another process first; should that crash, this one lives."""
    monkeypatch.setattr(trial_read, "_READ", "import os; os.abort()")
    with pytest.raises(partir.PartitionError, match="MLIR's reader crashes on it"):
        partir.load(bytecode())


def test_without_another_process_bytecode_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial_read.sys, "executable", "/nowhere/python")
    assert read(bytecode())


def test_numbers_beside_a_module_are_refused() -> None:
    """MLIR would read the exported module without them."""
    text = """func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c = stablehlo.constant dense_resource<blob> : tensor<4xf32>
      return %c : tensor<4xf32>
    }
    {-# dialect_resources: { builtin: {
      blob: "0x040000000000803F0000803F0000803F0000803F"
    } } #-}"""
    with pytest.raises(partir.PartitionError, match="keeps the numbers of a constant"):
        partir.load(text)


def test_sparse_constants_are_refused() -> None:
    """XLA does not read them, and the verifier has only numbers in a row."""
    text = """func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c = stablehlo.constant sparse<[[1]], [5.0]> : tensor<4xf32>
      return %c : tensor<4xf32>
    }"""
    with pytest.raises(partir.PartitionError, match="a sparse constant"):
        partir.load(text)
