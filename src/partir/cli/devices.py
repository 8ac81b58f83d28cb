"""`partir devices`: the specs that estimates can be made for."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from partir.cli.sources import terminal_width
from partir.columns import aligned
from partir.simulate.device.catalogue import devices
from partir.simulate.device.spec import DeviceSpec


def add_devices(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "devices",
        help="device specs that estimates can be made for",
        description="List the device specs: your own (from `partir calibrate` or "
        "written by hand) first, then the built-in ones.",
    )
    command.add_argument("--json", action="store_true", help="every figure, as JSON")
    command.set_defaults(run_command=run_devices)


def run_devices(args: Namespace) -> None:
    """Print the specs."""
    specs = [devices[name] for name in devices]
    if args.json:
        print(json.dumps([spec.as_data() for spec in specs], indent=1))
        return
    head = ["device", "TFLOP/s", "memory GB", "GB/s", "link GB/s", "topology", "node"]
    rows = [[*head, "network GB/s"], *map(_row, specs)]
    print("\n".join(aligned(rows, terminal_width())))


def _row(spec: DeviceSpec) -> list[str]:
    return [
        spec.name,
        f"{spec.flops_per_s / 1e12:.4g}",
        f"{spec.memory_bytes / 1e9:.4g}",
        f"{spec.memory_bytes_per_s / 1e9:.4g}",
        f"{spec.link_bytes_per_s / 1e9:.4g}",
        _topology(spec),
        str(spec.node_size or "any"),
        f"{spec.network_bytes_per_s / 1e9:.4g}" if spec.network_bytes_per_s else "-",
    ]


def _topology(spec: DeviceSpec) -> str:
    many = f"{spec.torus_dims}D " if spec.topology in ("torus", "mesh") else ""
    return f"{many}{spec.topology}"
