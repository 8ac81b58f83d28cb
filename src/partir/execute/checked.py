"""What must hold before a program runs is found out while XLA compiles it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
F = TypeVar("F")


class Check(Generic[F]):
    """A question about a program, which takes time, and what to do about the answer.

    The question may be put in any thread. The answer is judged by whoever wants to run
    the program, before it runs: there errors are raised, and warnings are given. A
    program that failed fails again whenever somebody wants to run it.
    """

    def __init__(self, find: Callable[[], F], judge: Callable[[F], None]) -> None:
        """Nothing is asked yet."""
        self._find, self._judge = find, judge

    def now(self) -> None:
        """Ask and judge, here."""
        self._judge(self._find())

    def beside(self, work: Callable[[], T]) -> T:
        """Ask while something else is done, which leaves Python to others.

        What is judged wrong is said whatever comes of the work.
        """
        with ThreadPoolExecutor(1, "partir-check") as pool:
            asked = pool.submit(self._find)
            try:
                made = work()
            finally:
                self._judge(asked.result())
        return made
