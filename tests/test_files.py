"""Files are written whole or not at all, also on a disk that is full."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import pytest

import partir
from partir.files import write_all, write_whole


@contextmanager
def full_disk(left: int) -> Iterator[None]:
    """No file may become larger than this: writing on fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (left, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_on_a_full_disk_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    write_whole(path, "old")
    with full_disk(100), pytest.raises(partir.PartitionError, match="can't write"):
        write_whole(path, "new" * 1000)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_schedule_is_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    x = jax.ShapeDtypeStruct((8,), "float32")
    rows = partir.ManualPartition({"x": 0}, axis="B")
    p = partir.partition(lambda x: x * 2, {"B": 4}, [rows], args=(x,))
    path = tmp_path / "rows.json"
    with full_disk(20), pytest.raises(partir.PartitionError, match="can't write"):
        p.save(path)
    assert list(tmp_path.iterdir()) == []
    p.save(path)
    assert partir.load_schedule(path).name == "manual over B"


def test_many_write_one_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "shared.txt"
    texts = [str(n) * 10_000 for n in range(8)]
    threads = [threading.Thread(target=write_whole, args=(path, t)) for t in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "file.txt", tmp_path / "link.txt"
    path.write_text("old")
    link.symlink_to(path)
    write_whole(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    """A pipe here; a device such as /dev/null would be gone, if it were replaced."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_all([(pipe, "text"), (tmp_path / "file.txt", "more")])
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert (tmp_path / "file.txt").read_text() == "more"
