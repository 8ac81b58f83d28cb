"""Specs in TOML files, and the folder that has the user's own."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from partir.errors import PartitionError
from partir.simulate.device.fusion_policy import policy_from_data
from partir.simulate.device.spec import NEEDED, DeviceSpec
from partir.spmd.export_policy import export_policy_from_data


def spec_from_data(data: Mapping[str, Any], where: str) -> DeviceSpec:
    """A spec from a table of figures; errors name what is missing or not known."""
    known = {f.name: f for f in fields(DeviceSpec)}
    for name in data:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise PartitionError(f'{where}: a device has no "{name}"{hint}')
    missing = [name for name in NEEDED if name not in data]
    if missing:
        raise PartitionError(
            f"{where}: the device spec lacks {', '.join(missing)}; it needs at least "
            f"{', '.join(NEEDED)}"
        )
    values = dict(data)
    if isinstance(values.get("matrix_tile"), list):
        values["matrix_tile"] = tuple(values["matrix_tile"])
    if "fusion" in values:
        values["fusion"] = policy_from_data(values["fusion"], where)
    if "export" in values:
        values["export"] = export_policy_from_data(values["export"], where)
    return DeviceSpec(**values)


def load_spec(path: str | os.PathLike[str]) -> DeviceSpec:
    """Read a spec from a TOML file.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.toml"
        >>> written = path.write_text('''
        ... name = "mine"
        ... flops_per_s = 1e14
        ... memory_bytes = 16e9
        ... memory_bytes_per_s = 1e12
        ... link_bytes_per_s = 5e10
        ... ''')
        >>> load_spec(path).name
        'mine'
    """
    try:
        with Path(path).open("rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise PartitionError(f"can't read {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise PartitionError(f"{path} is not TOML: {error}") from None
    return spec_from_data(data, str(path))


def user_folder() -> Path:
    """Folder of the user's own specs.

    ``$PARTIR_CONFIG_HOME``, else ``$XDG_CONFIG_HOME/partir``, else
    ``~/.config/partir``; specs are in ``devices`` inside it.
    """
    own = os.environ.get("PARTIR_CONFIG_HOME")
    if own:
        return Path(own) / "devices"
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "partir" / "devices"
