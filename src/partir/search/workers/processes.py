"""An executor whose every call runs in a Python process of its own.

The processes of `concurrent.futures` and `multiprocessing` run the user's main script
again when they start, unless it is guarded by `if __name__ == "__main__"`; forked ones
may hang with jax in them. These import partir and what is sent to them, nothing else.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_MAIN = (
    "import pickle, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from partir.search.workers.processes import serve; serve()"
)


class Processes(Executor):
    """One process per call, started as the call is submitted.

    Functions, arguments and results travel as pickles. What a call raises, the future
    raises; a process that ends without an answer is a RuntimeError.
    """

    def __init__(self, workers: int) -> None:
        """At most so many at a time."""
        self._threads = ThreadPoolExecutor(workers)
        self._running: set[subprocess.Popen[bytes]] = set()

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Run a function in a process of its own."""
        sent = pickle.dumps(sys.path) + pickle.dumps((fn, args, kwargs))
        return self._threads.submit(self._call, sent)

    def _call(self, sent: bytes) -> Any:
        # A session of its own: Ctrl-C is for the parent, which passes it on.
        with subprocess.Popen(
            [sys.executable, "-c", _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            self._running.add(process)
            try:
                process.stdin.write(sent)
                process.stdin.flush()  # and left open: the child ends if we do
                answer = process.stdout.read()
                process.stdin.close()
            except BrokenPipeError:
                answer = b""
            finally:
                self._running.discard(process)
        if not answer:
            raise RuntimeError(f"a search process ended with code {process.returncode}")
        good, result = pickle.loads(answer)
        if not good:
            raise result
        return result

    def interrupt(self) -> None:
        """Ctrl-C for all that runs."""
        for process in tuple(self._running):
            process.send_signal(signal.SIGINT)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As any executor's. Without waiting, what still runs is ended."""
        if not wait:
            for process in tuple(self._running):
                process.kill()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)


def serve() -> None:
    """The other side: one call from the standard input, its answer to the output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed does not belong to the answer
    try:
        function, args, kwargs = pickle.load(sys.stdin.buffer)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        answer = True, function(*args, **kwargs)
    except Exception as error:
        answer = False, error
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers.write(_pickled(answer))
    answers.close()


def _pickled(answer: tuple[bool, Any]) -> bytes:
    try:
        return pickle.dumps(answer)
    except Exception as error:  # an error that can't be sent is told in words
        return pickle.dumps((False, RuntimeError(f"{answer[1]!r} ({error})")))


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)
