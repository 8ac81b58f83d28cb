"""`partir calibrate`: measure this machine, keep the result as a device spec."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from partir.cli.sources import progress, terminal_width
from partir.columns import aligned
from partir.errors import PartitionError
from partir.execute.measure import machine, measure_all, start_devices
from partir.files import require_writable, write_whole
from partir.simulate.calibration import Fit, Measurement, fit_spec
from partir.simulate.device.spec_files import user_folder


def add_calibrate(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "calibrate",
        help="measure this machine and keep the result as a device spec",
        description="Measure matrix products, elementwise ops, memory and each "
        "collective on the JAX back end at hand, with all devices working at once; "
        "fit a device spec, store it, and print how well it fits.",
    )
    command.add_argument("--name", default="calibrated", help="its name (calibrated)")
    command.add_argument(
        "-o", "--output", help="file to write, by default in the configuration folder"
    )
    command.add_argument(
        "--devices", type=int, default=8, help="virtual devices on a CPU (8)"
    )
    command.add_argument("--quick", action="store_true", help="fewer, smaller sizes")
    command.add_argument("--json", action="store_true", help="the same as JSON")
    command.set_defaults(run_command=run_calibrate)


def run_calibrate(args: Namespace) -> None:
    """Measure, fit, store, report."""
    if args.devices < 1:
        raise PartitionError("--devices must be at least 1")
    if Path(args.name).name != args.name or not args.name:
        raise PartitionError(f"--name {args.name!r} is not a plain name")
    path = Path(args.output) if args.output else user_folder() / f"{args.name}.toml"
    _prepare(path)
    count = start_devices(args.devices)
    with progress(f"measuring {count} devices"):
        measured = measure_all(count, quick=args.quick)
    fit = fit_spec(args.name, count, measured, **machine(count))
    write_whole(path, fit.spec.to_toml())
    if args.json:
        data = {"path": str(path), "spec": fit.spec.as_data()}
        print(json.dumps({**data, "fits": _data(fit)}, indent=1))
        return
    rows = [["measurement", "measured ms", "predicted ms", "error"]]
    rows += [_row(one, predicted) for one, predicted in fit.predictions]
    print("\n".join(aligned(rows, terminal_width())))
    print(f"\nmedian error {fit.median_error:.1%}, worst {fit.worst_error:.1%}")
    print(f'wrote {path}: use it as device="{args.name}" or --device {args.name}')


def _prepare(path: Path) -> None:
    """Say that a file can't be written before anything is measured."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PartitionError(f"can't write {path}: {error.strerror}") from None
    require_writable(path)


def _row(one: Measurement, predicted: float) -> list[str]:
    return [
        one.label,
        f"{one.seconds * 1e3:.3f}",
        f"{predicted * 1e3:.3f}",
        f"{predicted / one.seconds - 1:+.0%}",
    ]


def _data(fit: Fit) -> list[dict[str, Any]]:
    return [
        {"label": one.label, "seconds": one.seconds, "predicted": predicted}
        for one, predicted in fit.predictions
    ]
