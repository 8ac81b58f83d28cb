"""Devices by name: built-in specs and the user's own, or whatever was given as one."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from partir.errors import PartitionError
from partir.simulate.device.spec import DeviceSpec
from partir.simulate.device.spec_files import load_spec, user_folder

DeviceLike: TypeAlias = str | os.PathLike[str] | DeviceSpec
"""A device to estimate for: a name, a path to a .toml file, or a spec."""


class Devices(Mapping[str, DeviceSpec]):
    """Specs by name: the built-in ones, and the user's own, which come first.

    Example:
        >>> import partir
        >>> partir.devices["tpu_v5e"].memory_bytes / 2**30
        15.75
    """

    def __init__(self, built_in: Mapping[str, DeviceSpec]) -> None:
        """Start with the built-in specs."""
        self._built_in = dict(built_in)

    def __getitem__(self, name: str) -> DeviceSpec:
        """The spec of this name; a PartitionError with the nearest names if unknown."""
        path = user_folder() / f"{name}.toml"
        if name and Path(name).name == name and path.is_file():
            return load_spec(path)
        if name in self._built_in:
            return self._built_in[name]
        close = difflib.get_close_matches(name.lower(), list(self), 3, 0.4)
        nearest = f"; nearest: {', '.join(close)}" if close else ""
        raise UnknownDevice(
            f'no device "{name}"{nearest}. Known: {", ".join(self)}. Or pass a '
            "partir.DeviceSpec, or a path to a .toml file"
        )

    def __iter__(self) -> Iterator[str]:
        """Names, the user's own first."""
        folder = user_folder()
        own = sorted(p.stem for p in folder.glob("*.toml")) if folder.is_dir() else []
        yield from own
        yield from (name for name in self._built_in if name not in own)

    def __len__(self) -> int:
        """How many there are."""
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Whether there is a spec of this name."""
        return name in list(self)


class UnknownDevice(PartitionError, KeyError):
    """No device of this name."""

    __str__ = PartitionError.__str__


def as_device(given: Any, devices: Devices) -> DeviceSpec:
    """A spec, a name, or a path to a TOML file."""
    if isinstance(given, DeviceSpec):
        return given
    if isinstance(given, os.PathLike) or (
        isinstance(given, str) and given.endswith(".toml")
    ):
        return load_spec(given)
    if isinstance(given, str):
        return devices[given]
    raise PartitionError(
        "a device is a name, a partir.DeviceSpec or a path to a .toml file, got "
        f"{type(given).__name__}: {given!r}. Known: {', '.join(devices)}"
    )
