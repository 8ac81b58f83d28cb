"""Reading models and schedules that users name on the command line."""

from __future__ import annotations

import importlib.util
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

import partir
from partir.api.partitioned import Partitioned
from partir.errors import PartirError, PartitionError
from partir.mesh import Mesh


@contextmanager
def progress(text: str) -> Iterator[None]:
    """A spinner on standard error while something takes its time."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


def partition_arguments(args: Namespace) -> Partitioned:
    """Partition what the command line says."""
    if args.device is not None:
        raise PartitionError(
            "--device needs the simulator, which is not there yet: leave it out"
        )
    if args.mesh is None:
        raise PartitionError("--mesh is missing: write for example --mesh B=4,M=2")
    mesh = Mesh.parse(args.mesh)
    schedule = load_schedule(args.schedule) if args.schedule else []
    with progress(f"partitioning {args.model}"):
        return _partition(args.model, mesh, schedule, args.strict)


def _partition(model: str, mesh: Mesh, schedule: Any, strict: bool) -> Partitioned:
    path, function = split_model(model)
    if function is None:
        return partir.partition(partir.load(path), mesh, schedule, strict=strict)
    module = load_module(path)
    fn = getattr(module, function, None)
    if not callable(fn):
        names = [n for n, v in vars(module).items() if callable(v) and n[0] != "_"]
        raise PartitionError(
            f"{path} has no function {function}; it has {', '.join(names) or 'none'}"
        )
    positional, named = _example_args(module, path)
    return partir.partition(
        fn,
        mesh,
        schedule,
        args=positional,
        kwargs=named,
        donate_argnums=getattr(module, "donate_argnums", ()),
        carry=getattr(module, "carry", None),
        strict=strict,
    )


def _example_args(
    module: ModuleType, path: Path
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make = getattr(module, "example_args", None)
    if not callable(make):
        raise PartitionError(
            f"{path} has no example_args(): define it to return (args, kwargs) of "
            "arrays or jax.ShapeDtypeStructs"
        )
    with _user_code(path, "example_args()"):
        made = make()
    pair = isinstance(made, tuple) and len(made) == 2
    if not pair or not isinstance(made[0], tuple) or not isinstance(made[1], dict):
        raise PartitionError(
            f"example_args() in {path} must return (args, kwargs), a tuple and a dict; "
            f"it returned {type(made).__name__}"
        )
    return made[0], made[1]


def split_model(model: str) -> tuple[Path, str | None]:
    """``file.py:function``, or a module's file."""
    head, colon, function = model.rpartition(":")
    if colon and head.endswith(".py"):
        return Path(head), function
    if model.endswith(".py"):
        raise PartitionError(
            f"{model} is a Python file: say which function, as {model}:train_step"
        )
    return Path(model), None


def load_schedule(path: str) -> Any:
    """A schedule from a Python file or from a saved one."""
    if not path.endswith(".py"):
        return partir.load_schedule(path)
    module = load_module(Path(path))
    if not hasattr(module, "schedule"):
        raise PartitionError(f"{path} has no `schedule`: write schedule = [BP, MP, …]")
    return module.schedule


def load_module(path: Path) -> ModuleType:
    """Import a user's file; its folder is on the path as when it is run."""
    if not path.is_file():
        raise PartitionError(f"can't read {path}: no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent))
    try:
        with _user_code(path, "it"):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


@contextmanager
def _user_code(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except PartirError:
        raise
    except Exception as error:
        raise PartitionError(
            f"can't load {path}: {what} raised {type(error).__name__}: {error}"
        ) from error
