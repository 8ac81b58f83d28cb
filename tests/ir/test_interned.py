"""Types and signatures are one object each, also where several threads make them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from partir.ir.core import Signature
from partir.ir.types import TensorType

THREADS, COUNT = 4, 1500

pytestmark = pytest.mark.quick


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    yield
    sys.setswitchinterval(before)


def _type(number: int) -> TensorType:
    return TensorType((number, 12345), "f32")


def _signature(number: int) -> Signature:
    made = Signature.of("stablehlo.iota", {"test_interned": str(number)}, (), ())
    assert made.name == "iota", "made in full before others see it"
    return made


@pytest.mark.parametrize("make", [_type, _signature])
@pytest.mark.usefixtures("frequent_switches")
def test_one_object_for_all_threads(make: Callable[[int], object]) -> None:
    start = threading.Barrier(THREADS)

    def run() -> list[int]:
        made = []
        for number in range(COUNT):
            if number % 50 == 0:
                start.wait(timeout=20)
            made.append(id(make(number)))
        return made

    with ThreadPoolExecutor(THREADS) as threads:
        futures = [threads.submit(run) for _ in range(THREADS)]
        first, *others = [future.result() for future in futures]
    assert all(other == first for other in others)
