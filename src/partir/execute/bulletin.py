"""What processes tell each other outside of programs, through jax's own service.

A collective would wait for ever for a process that has failed. Here everybody posts
what it has come to, and waits for the others' posts for a limited time; a process that
fails posts why. All processes come to the same attempts in the same order, failed or
not, and within one to the same messages, as far as they come.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from partir.errors import PartitionError
from partir.execute.jax_private import coordination_client

VARIABLE = "PARTIR_PROCESS_SECONDS"
SECONDS = 600.0
_GLANCE = 1.0  # seconds after which to look whether the other has failed
_PIECE = 1 << 20  # bytes of a message, of which the service takes a few million


class OtherProcess(PartitionError):
    """Something that another process has done, or has not."""


def limit() -> float:
    """How long to wait for other processes, in seconds."""
    text = os.environ.get(VARIABLE, "")
    try:
        return float(text) if text else SECONDS
    except ValueError:
        raise PartitionError(
            f"{VARIABLE} is a number of seconds, got {text!r}"
        ) from None


class Attempt:
    """Something that all processes try to do; within it they exchange messages."""

    _numbers = itertools.count()
    _current: list[Attempt] = []  # noqa: RUF012  (the one under way, of this process)

    def __init__(self, what: str) -> None:
        """The next one of this process."""
        self.what, self.number = what, next(self._numbers)
        self._messages = itertools.count()

    @classmethod
    @contextmanager
    def at(cls, what: str) -> Iterator[Attempt]:
        """The attempt under way, or else a new one; the others learn of a failure."""
        if cls._current:
            yield cls._current[-1]
            return
        made = cls(what)
        cls._current.append(made)
        try:
            yield made
        except OtherProcess:
            raise
        except Exception as error:
            made._put("failed", f"{type(error).__name__}: {error}".encode())
            raise
        finally:
            cls._current.pop()

    def exchanged(self, mine: bytes | None, whose: list[int], patient: bool) -> Any:
        """Post a message, or none, and read those of these processes, in order.

        `patient`: wait however long it takes, unless the other fails.
        """
        name = f"message{next(self._messages)}"
        if mine is not None:
            self._put(name, mine)
        end = time.monotonic() + (float("inf") if patient else limit())
        return [self._read(name, process, end) for process in whose]

    def _key(self, process: int, name: str) -> str:
        return f"partir/{self.number}/{process}/{name}"

    def _put(self, name: str, data: bytes) -> None:
        pieces = [data[n : n + _PIECE] for n in range(0, len(data), _PIECE)]
        client, key = coordination_client(), self._key(jax.process_index(), name)
        for number, piece in enumerate(pieces):
            client.key_value_set_bytes(f"{key}/{number}", piece)
        client.key_value_set_bytes(key, str(len(pieces)).encode())

    def _read(self, name: str, process: int, end: float) -> bytes:
        count = self._wait(name, process, end)
        while count is None:
            failed = self._wait("failed", process, time.monotonic())
            if failed is not None:
                why = self._pieces("failed", process, failed).decode()
                raise OtherProcess(f"process {process} failed over {self.what}: {why}")
            if time.monotonic() >= end:
                raise OtherProcess(
                    f"process {process} has not come to {self.what} in time "
                    f"({VARIABLE}={limit():g}): it has failed, or does something else"
                )
            count = self._wait(name, process, end)
        return self._pieces(name, process, count)

    def _pieces(self, name: str, process: int, count: bytes) -> bytes:
        client, key = coordination_client(), self._key(process, name)
        keys = [f"{key}/{number}" for number in range(int(count))]
        wait = int(1000 * limit())
        return b"".join(client.blocking_key_value_get_bytes(k, wait) for k in keys)

    def _wait(self, name: str, process: int, end: float) -> bytes | None:
        """A short while for a message; None if it is not there."""
        seconds = min(max(end - time.monotonic(), 0.05), _GLANCE)
        key = self._key(process, name)
        try:
            found: bytes = coordination_client().blocking_key_value_get_bytes(
                key, int(1000 * seconds)
            )
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" in str(error):
                return None
            raise OtherProcess(
                f"process {process} can't be reached over {self.what}: {error}"
            ) from None
        return found


def can_post() -> bool:
    """Whether there are other processes, and a service to reach them by."""
    return jax.distributed.is_initialized() and coordination_client() is not None
