"""Reading models and schedules that users name on the command line."""

from __future__ import annotations

import importlib.util
import inspect
import shutil
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

import partir
from partir.api.partitioned import Partitioned
from partir.errors import PartirError, PartitionError, user_line
from partir.mesh import Mesh
from partir.simulate.device.catalogue import devices
from partir.tactics.schedule import as_schedule


@contextmanager
def progress(text: str) -> Iterator[None]:
    """A spinner on standard error while something takes its time."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


def require_device(args: Namespace, what: str) -> None:
    """What is estimated needs a device: say so before anything is computed."""
    if args.device is None:
        raise PartitionError(
            f"{what} needs --device: one of {', '.join(devices)}, or a .toml file"
        )


def terminal_width() -> int | None:
    """Columns of the terminal that is written to; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def at_least_one(text: str) -> int:
    """A count on the command line."""
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"a whole number of at least 1 is needed, got {text!r}")
    return int(text)


def partition_arguments(args: Namespace, then: Sequence[Any] = ()) -> Partitioned:
    """Partition what the command line says, and then by more tactics."""
    if args.mesh is None:
        raise PartitionError("--mesh is missing: write for example --mesh B=4,M=2")
    mesh = Mesh.parse(args.mesh)
    # What users' files print must not end up in our own output.
    shown = nullcontext() if then else progress(f"partitioning {args.model}")
    with redirect_stdout(sys.stderr), shown:
        schedule = load_schedule(args.schedule) if args.schedule else []
        schedule = [as_schedule(schedule), *then] if then else schedule
        with _user_code("the schedule or the model"):
            said = {"strict": args.strict, "device": args.device}
            return _partition(args.model, mesh, schedule, said)


def _partition(
    model: str, mesh: Mesh, schedule: Any, said: dict[str, Any]
) -> Partitioned:
    path, function = split_model(model)
    if function is None:
        return partir.partition(partir.load(path), mesh, schedule, **said)
    module = load_module(path)
    fn = _function(module, path, function)
    positional, named = _example_args(module, path)
    try:
        inspect.signature(fn).bind(*positional, **named)
    except TypeError as error:
        raise PartitionError(
            f"example_args() in {path} does not fit {function}: {error}"
        ) from None
    return partir.partition(
        fn,
        mesh,
        schedule,
        args=positional,
        kwargs=named,
        donate_argnums=getattr(module, "donate_argnums", ()),
        carry=getattr(module, "carry", None),
        **said,
    )


def _function(module: ModuleType, path: Path, name: str) -> Callable[..., Any]:
    member = getattr(module, name, None)
    if callable(member):
        fn: Callable[..., Any] = member
        return fn
    own = [
        n
        for n, v in vars(module).items()
        if getattr(v, "__module__", None) == module.__name__
        and callable(v)
        and not n.startswith("_")
        and n != "example_args"
    ]
    raise PartitionError(
        f"{path} has no function {name}; it has {', '.join(own) or 'none'}"
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
    with _user_code(f"example_args() in {path}"):
        given = make()
    pair = isinstance(given, tuple) and len(given) == 2
    if not pair or not isinstance(given[0], tuple) or not isinstance(given[1], dict):
        kinds = (
            [type(part).__name__ for part in given] if pair else [type(given).__name__]
        )
        raise PartitionError(
            f"example_args() in {path} must return a tuple of arguments and a dict of "
            f"keyword arguments, as `return (x, y), {{}}`; it returned a "
            f"{' and a '.join(kinds)}"
        )
    return given[0], given[1]


def split_model(model: str) -> tuple[Path, str | None]:
    """``file.py:function``, or a module's file."""
    head, colon, function = model.rpartition(":")
    if colon and head.endswith(".py") and function:
        return Path(head), function
    if model.removesuffix(":").endswith(".py"):
        model = model.removesuffix(":")
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
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with _user_code(str(path), always=True):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _user_code(what: str, always: bool = False) -> Iterator[None]:
    """What users' code raises becomes a PartitionError that says in which line.

    An error that no line of theirs took part in is a bug of ours, and goes through.
    """
    try:
        yield
    except PartirError:
        raise
    except (Exception, SystemExit) as error:
        where = user_line(error)
        if where is None and not always:
            raise
        reason = str(error).strip().partition("\n")[0]
        raise PartitionError(
            f"{what} raised {type(error).__name__}: {reason}"
            + (f" ({where})" if where else "")
        ) from error
