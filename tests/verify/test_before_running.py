"""What is about to run is proved first: wrong programs never start."""

from __future__ import annotations

import re
import threading
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import partir
from partir.api import partitioned as record
from partir.execute.checked import Check

X = np.arange(64.0, dtype=np.float32).reshape(8, 8)
ROWS = partir.ManualPartition({"x": 0}, axis="B")


def total(x: jax.Array) -> jax.Array:
    return jnp.sum(x * x)


def with_total(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return 2 * x, total(x)


def proofs(monkeypatch: pytest.MonkeyPatch, change: Any = None) -> list[Any]:
    """Proofs as they are asked for; `change` puts another module in the place."""
    found: list[Any] = []
    prove = record.prove

    def kept(source: Any, module: Any, *others: Any) -> Any:
        found.append(prove(source, change(module) if change else module, *others))
        return found[-1]

    monkeypatch.setattr(record, "prove", kept)
    return found


def test_a_program_is_proved_once_before_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = proofs(monkeypatch)
    step = partir.jit(total, {"B": 4}, [ROWS])
    assert float(step(X)) == float(np.sum(X * X))
    step(X)
    assert [proof.proved for proof in found] == [("out",)]


def test_off_leaves_the_proof_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = proofs(monkeypatch)
    partir.jit(total, {"B": 4}, [ROWS], verify="off")(X)
    assert not found


def test_a_wrong_program_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    p = partir.partition(total, {"B": 4}, [ROWS], args=(X,))
    wrong = without_sum(p.stablehlo())
    proofs(monkeypatch, lambda text: wrong)
    with pytest.raises(partir.VerificationError, match="partial sum over B") as raised:
        p.compile()
    assert "is a bug of partir, please report it" in str(raised.value)


def test_jit_proves_while_xla_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    found, threads = proofs(monkeypatch), []
    prove = record.prove

    def seen(*args: Any) -> Any:
        threads.append(threading.current_thread())
        return prove(*args)

    monkeypatch.setattr(record, "prove", seen)
    step = partir.jit(total, {"B": 4}, [ROWS])
    assert float(step(X)) == float(np.sum(X * X))
    partir.jit(total, {"B": 4}, [ROWS]).lower(X).compile()
    assert len(found) == 2
    assert threading.main_thread() not in threads


def test_jit_does_not_run_a_wrong_program(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs(monkeypatch, without_sum)
    step = partir.jit(with_total, {"B": 4}, [ROWS], donate_argnums=0)
    x = step.partitioned(X).shard(X)
    for _ in range(2):
        with pytest.raises(partir.VerificationError, match="partial sum over B"):
            step(x)
    assert not x.is_deleted()  # a call would have taken it
    with pytest.raises(partir.VerificationError, match="partial sum over B"):
        step.lower(X).compile()
    with pytest.raises(partir.VerificationError, match="partial sum over B"):
        jax.jit(lambda x: step(x))(X)


def test_a_wrong_program_is_said_so_if_xla_refuses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proofs(monkeypatch, without_sum)
    options = {"xla_no_such_option": True}
    step = partir.jit(total, {"B": 4}, [ROWS], compiler_options=options)
    with pytest.raises(partir.VerificationError, match="partial sum over B"):
        step(X)


def without_sum(text: str) -> str:
    """What each device has, in place of the sum over all."""
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if "stablehlo.all_reduce" in line)
    result = lines[at].split(" = ")[0].strip()
    operand = lines[at].split("(")[1].split(")")[0]
    read = [re.sub(rf"{result}\b", operand, line) for line in lines[at + 1 :]]
    return "\n".join([*lines[: at + 1], *read])


def test_what_is_not_proved_warns_or_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = '"stablehlo.sine"(%arg0) : (tensor<2x8xf32>) -> tensor<2x8xf32>'

    def change(text: str) -> str:
        return text.replace("%arg0, %arg0)", "%s, %arg0)", 1).replace(
            "{\n%1 =", f"{{\n%s = {unknown}\n%1 =", 1
        )

    p = partir.partition(total, {"B": 4}, [ROWS], args=(X,), verify="on")
    assert change(p.stablehlo()) != p.stablehlo()
    proofs(monkeypatch, change)
    with pytest.warns(partir.NotProvedWarning) as warned:
        p.compile()
    text = str(warned[0].message)
    assert text.startswith("total: out is not proved: ")
    assert "sine" in text
    assert 'verify="off" leaves the proof out' in text
    assert warned[0].filename == __file__
    with warnings.catch_warnings(record=True) as again:
        p.compile()
    assert not again  # one warning is enough
    strict = partir.partition(
        total, {"B": 4}, [ROWS], args=(X,), verify="on", strict=True
    )
    with pytest.raises(partir.VerificationError, match="only what is proved") as raised:
        strict.compile()
    assert "The part that shows it" in str(raised.value)


def test_what_fails_is_asked_again_and_what_passed_is_not() -> None:
    asked: list[str] = []
    judged = iter([ValueError("wrong"), None])

    def judge(_: None) -> None:
        if error := next(judged):
            raise error

    check = Check(lambda: asked.append("asked"), judge)
    with pytest.raises(ValueError, match="wrong"):
        check.beside(lambda: 1 / 0)
    assert check.beside(lambda: 5) == 5
    assert asked == ["asked"] * 2


def test_the_warning_is_at_the_users_call(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs(
        monkeypatch, lambda text: text.replace("stablehlo.multiply", "stablehlo.add")
    )
    with pytest.warns(partir.NotProvedWarning) as warned:
        partir.jit(total, {"B": 4}, [ROWS], verify="on")(X)
    assert warned[0].filename == __file__
    with pytest.warns(partir.NotProvedWarning) as warned:
        partir.jit(total, {"B": 4}, [ROWS], verify="on").lower(X).compile()
    assert warned[0].filename == __file__


def test_other_words_are_refused() -> None:
    with pytest.raises(partir.PartitionError, match='verify is "on" or "off"'):
        partir.jit(total, {"B": 4}, [ROWS], verify="maybe")  # type: ignore[call-overload]
