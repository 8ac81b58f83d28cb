"""Ahead of time: jax's stages, called like the original function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from partir.execute.interface import Interface
from partir.execute.options import CompilerOptions
from partir.frontend.arguments import Call, flatten_call

Run = Callable[[list[Any], Any], Any]
"""Runs an executable on the arrays of a call."""

Seen = Callable[[Call, list[Any]], Call]
"""A call as users see it, whose arrays may come padded."""

Checked = Callable[[Callable[[], Any]], Any]
"""Does what it is given, and makes sure meanwhile that the program may run."""


class Lowered:
    """jax's lowered computation; `compile` gives a callable in the user's own trees."""

    def __init__(
        self,
        lowered: Any,
        interface: Interface,
        run: Run,
        seen: Seen,
        checked: Checked,
    ) -> None:
        """Made by `Compiled.lower`."""
        self._lowered, self._interface = lowered, interface
        self._run, self._seen, self._checked = run, seen, checked

    def compile(self, compiler_options: CompilerOptions | None = None) -> Executable:
        """Compile with XLA."""
        options = None if compiler_options is None else dict(compiler_options)
        executable = self._checked(lambda: self._lowered.compile(options))
        return Executable(executable, self._interface, self._run, self._seen)

    def __getattr__(self, name: str) -> Any:
        """All else as jax has it: as_text, compiler_ir, cost_analysis, …"""
        return getattr(self._lowered, name)


class Executable:
    """jax's compiled computation; called like the function, without static arguments.

    For one signature: any other call is a PartitionError.
    """

    def __init__(
        self, executable: Any, interface: Interface, run: Run, seen: Seen
    ) -> None:
        """Made by `Lowered.compile`."""
        self._executable, self._interface = executable, interface
        self._run, self._seen = run, seen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the devices."""
        given, arrays = flatten_call(self._interface.parameters, args, kwargs)
        self._interface.require(self._seen(given, arrays))
        return self._run(arrays, self._executable)

    def __getattr__(self, name: str) -> Any:
        """All else as jax has it: as_text, memory_analysis, cost_analysis, …"""
        return getattr(self._executable, name)
