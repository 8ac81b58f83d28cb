"""What the compilers for CPUs, TPUs and GPUs make of programs, ours beside Shardy's.

    python -m benchmarks.compilers PLATFORM [--models MLP,transformer]
        [--schedules BP+MP,BP+MP+Z3] [--layers 2] [--topology v5e:2x4] [--write]
        [--keep FOLDER] [--kept-only]

PLATFORM is cpu, tpu or gpu. No accelerator is needed: libtpu and XLA's CUDA plugin
compile for devices that are not there (`make bench-tpu`, `make bench-gpu` make an
environment with them). Shardy gets the function itself with the same shardings of
arguments and results. For both: memory of a device and temporaries (for TPUs as the
compiler assigns buffers, `benchmarks/compiled.py`), collectives in the final program
with loops multiplied, bytes sent, copies, cycles as the compiler for TPUs estimates
them, and the time to compile.

``--write`` puts the table into ``benchmarks/results``, with versions and date.
``--keep`` keeps figures and final texts in a folder, by what was compiled: a run that
was stopped goes on where it was. With ``--kept-only`` nothing more is compiled, and the
page names what is missing.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FLAG = "--xla_force_host_platform_device_count=8"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()
os.environ["JAX_PLATFORMS"] = "cpu"  # else jax looks for the devices, and waits
os.environ["TPU_SKIP_MDS_QUERY"] = "1"
os.environ["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"
os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"

import jax  # noqa: E402
from jax.experimental import topologies  # noqa: E402

import partir  # noqa: E402
from benchmarks.compiled import Compiler, Made  # noqa: E402
from benchmarks.models import mlp, scanned, schedules, stacked, transformer  # noqa: E402
from benchmarks.models.experts import MODELS  # noqa: E402

AXES = {"B": 4, "M": 2}
TOPOLOGIES = {"tpu": "v5e:2x4", "gpu": "1x1x8", "cpu": ""}
DEVICES = {"v3": "tpu_v3", "v4": "tpu_v4", "v5e": "tpu_v5e", "v5p": "tpu_v5p"}
DEVICES |= {"v6e": "tpu_v6e", "tpu7x": "tpu_v7", "1x1x8": "h100", "": "cpu"}
SCHEDULES = ("BP", "BP+MP", "BP+MP+Z2", "BP+MP+Z3")
RESULTS = Path(__file__).parent / "results"
_GPU_DEVICE = Path(__file__).parent / "h100.txtpb"
# Neither tuned on a device nor by kernels that only a device can compile.
_GPU_OPTIONS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}


@dataclass(frozen=True)
class Case:
    """A function with its arguments' shapes and its schedules."""

    step: Callable[..., Any]
    args: tuple[Any, ...]
    schedules: dict[str, list[Any]]
    donate: tuple[int, ...] = (0, 1)


def _of_blocks(model: Any, layers: int, width: int, batch: int) -> Case:
    config = mlp.Config(blocks=layers, width=width, hidden=4 * width, batch=batch)
    state = scanned if model is scanned else schedules
    tactics = [model.BATCH, model.MODEL, state.Z2, state.Z3]
    return Case(model.train_step, model.example_args(config)[0], _product(*tactics))


def _of_layers(model: Any, layers: int, large_batch: bool) -> Case:
    width, batch = (1024, 64) if large_batch else (2048, 8)
    config = transformer.Config(
        layers=layers,
        width=width,
        heads=width // 128,
        head_dim=128,
        hidden=4 * width,
        vocab=8 * width,
        sequence=512,
        batch=batch,
        biased=True,
        compute_dtype="bfloat16" if large_batch else None,
    )
    tactics = stacked if model is stacked else schedules
    found = _product(tactics.BP, tactics.MP, tactics.Z2, tactics.Z3)
    return Case(model.step_for(config), model.example_args(config)[0], found)


def _product(batch: Any, model: Any, state: Any, all_state: Any) -> dict[str, Any]:
    return {
        "BP": [batch],
        "BP+Z2": [batch, state],
        "BP+Z3": [batch, all_state],
        "BP+MP": [batch, model],
        "BP+MP+Z2": [batch, model, state],
        "BP+MP+Z3": [batch, model, all_state],
    }


# Each in two regimes: weights larger than activations, and the reverse ("large batch").
CASES: dict[str, Callable[[int], Case]] = {
    "MLP": lambda n: _of_blocks(mlp, n, 4096, 64),
    "MLP, large batch": lambda n: _of_blocks(mlp, n, 1024, 65536),
    "scanned MLP": lambda n: _of_blocks(scanned, n, 4096, 64),
    "scanned MLP, large batch": lambda n: _of_blocks(scanned, n, 1024, 65536),
    "transformer": lambda n: _of_layers(transformer, n, False),
    "transformer, large batch": lambda n: _of_layers(transformer, n, True),
    "scanned transformer": lambda n: _of_layers(stacked, n, False),
    "scanned transformer, large batch": lambda n: _of_layers(stacked, n, True),
}


def case_of(name: str, layers: int) -> Case:
    """One of ours, or a benchmark model at its small size."""
    if name in CASES:
        return CASES[name](layers)
    model = MODELS[name]
    step, args = model.small_case()
    found = {n: list(s) for n, s in model.schedules_on(AXES).items()}
    return Case(step, args, found, model.donate)


@dataclass(frozen=True)
class Row:
    """Both programs for one model and schedule, and what the simulator says."""

    model: str
    schedule: str
    predicted: int
    ours: Made
    theirs: Made


def devices_of(platform: str, topology: str, axes: Mapping[str, int] = AXES) -> Any:
    """Devices to compile for: virtual ones, or such as are not there."""
    if platform == "cpu":
        return jax.devices()
    if platform == "tpu":
        topo = topologies.get_topology_desc(platform="tpu", topology_name=topology)
        return topologies.make_mesh(topo, tuple(axes.values()), tuple(axes))
    description = "\n".join(
        line for line in _GPU_DEVICE.read_text().splitlines() if line[:1] != "#"
    )
    return topologies.get_topology_desc(
        platform="cuda", topology_name="", topology=topology, target_config=description
    ).devices


def compiler_of(args: argparse.Namespace, axes: Mapping[str, int] = AXES) -> Compiler:
    """The compiler that was asked for; it keeps what it makes if that was."""
    target = f"{args.platform} {args.topology} {axes} {_versions(args.platform)}"
    options = _GPU_OPTIONS if args.platform == "gpu" else None
    as_assigned = args.platform == "tpu"
    return Compiler(target, options, args.keep, args.kept_only, as_assigned)


def measure(name: str, args: argparse.Namespace) -> Iterator[Row | str]:
    """All wanted schedules of one model; of what is not to be compiled, its name."""
    case = case_of(name, args.layers)
    device = DEVICES[args.topology.split(":")[0]]
    mesh, compiler = devices_of(args.platform, args.topology), compiler_of(args)
    for schedule in args.schedules:
        if schedule not in case.schedules:
            continue
        done = partir.partition(
            case.step,
            AXES,
            case.schedules[schedule],
            args=case.args,
            donate_argnums=case.donate,
            device=device,
            devices=mesh,
            verify="off",
        )
        theirs = jax.jit(
            case.step,
            in_shardings=done.in_shardings(),
            out_shardings=done.out_shardings(),
            donate_argnums=case.donate,
        )
        both = done.compile().lower(*case.args), theirs.lower(*case.args)
        made = [compiler.made(lowered) for lowered in both]
        if made[0] is None or made[1] is None:
            yield f"{name} {schedule}"
            continue
        row = Row(name, schedule, done.estimate.peak_bytes, made[0], made[1])
        print(*_cells(row), sep=" | ", file=sys.stderr, flush=True)
        yield row


def table(rows: Sequence[Row]) -> str:
    """Markdown: ours / Shardy's, or the ratio of the two."""
    header = (
        "model",
        "schedule",
        "memory MiB",
        "predicted",
        "temporaries MiB",
        "collectives AG/AR/RS/A2A/CP",
        "MB sent",
        "copies",
        "cycles 1e6",
        "compile s",
    )
    lines = [header, ["---"] * len(header), *map(_cells, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(row: Row) -> list[str]:
    ours, theirs = row.ours, row.theirs

    def both(figure: Callable[[Made], object]) -> str:
        return f"{figure(ours)} / {figure(theirs)}"

    ratio = ours.memory / theirs.memory
    cycles = f", {ours.cycles / theirs.cycles:.2f}x" if theirs.cycles else ""
    return [
        row.model,
        row.schedule,
        both(lambda m: round(m.memory / 2**20)) + f", {ratio:.2f}x",
        f"{row.predicted / ours.memory - 1:+.0%}",
        both(lambda m: round(m.temporaries / 2**20)),
        both(lambda m: "/".join(str(m.collectives.get(k, 0)) for k in _ORDER)),
        both(lambda m: round(m.bytes_sent / 1e6)),
        both(lambda m: m.copies),
        both(lambda m: round(m.cycles / 1e6, 2)) + cycles,
        both(lambda m: round(m.seconds, 1)),
    ]


_ORDER = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
)


def _versions(platform: str) -> str:
    names = ["jax", "jaxlib", {"tpu": "libtpu", "gpu": "jax-cuda12-pjrt"}.get(platform)]
    return ", ".join(f"{n} {importlib.metadata.version(n)}" for n in names if n)


def means(rows: Sequence[Row]) -> str:
    """Ours beside Shardy's in the geometric mean, and the worst pair."""
    figures: dict[str, Callable[[Made], float]] = {
        "memory": lambda m: m.memory,
        "bytes sent": lambda m: m.bytes_sent,
        "cycles": lambda m: m.cycles,
    }
    lines = ["| | geometric mean | worst pair |", "|---|---|---|"]
    for name, figure in figures.items():
        if not all(figure(row.theirs) for row in rows):
            continue
        ratios = [figure(row.ours) / figure(row.theirs) for row in rows]
        worst = max(range(len(rows)), key=ratios.__getitem__)
        where = f"{rows[worst].model} {rows[worst].schedule}"
        mean = statistics.geometric_mean(ratios)
        lines.append(f"| {name} | {mean:.2f}x | {ratios[worst]:.2f}x, {where} |")
    return "\n".join(lines)


def page(
    args: argparse.Namespace, rows: Sequence[Row], missing: Sequence[str] = ()
) -> str:
    """The table with how it was made."""
    command = f"python -m benchmarks.compilers {' '.join(sys.argv[1:])}"
    assigned = " Memory is what buffers take." if args.platform == "tpu" else ""
    absent = f"\nNot compiled: {'; '.join(missing)}.\n" if missing else ""
    return (
        f"# Compiled for {args.platform} {args.topology}\n\n"
        "| | |\n|---|---|\n"
        f"| command | `{command}` |\n"
        f"| date | {datetime.date.today()} |\n"
        f"| versions | {_versions(args.platform)} |\n"
        "| machine | any: nothing is run; compile times are of this one |\n\n"
        f"Mesh `{partir.Mesh(AXES)}`, {args.layers} layers. Ours / Shardy's; "
        f"*predicted* is the simulator's error on our memory.{assigned}\n\n"
        f"{table(rows)}\n\n{means(rows)}\n{absent}"
    )


def main() -> None:
    """Compile what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("platform", choices=TOPOLOGIES)
    parser.add_argument("--models", default=";".join(CASES), help="separated by ;")
    parser.add_argument("--schedules", default=",".join(SCHEDULES))
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--topology", default=None)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for what was compiled")
    parser.add_argument("--kept-only", action="store_true")
    args = parser.parse_args()
    args.topology = args.topology or TOPOLOGIES[args.platform]
    args.schedules = args.schedules.split(",")
    found = [one for name in args.models.split(";") for one in measure(name, args)]
    rows = [one for one in found if isinstance(one, Row)]
    text = page(args, rows, [one for one in found if isinstance(one, str)])
    print(text)
    if args.write:
        RESULTS.mkdir(exist_ok=True)
        name = f"{args.platform}_{args.topology.replace(':', '_')}".strip("_")
        (RESULTS / f"compilers_{name}.md").write_text(text)


if __name__ == "__main__":
    main()
