"""Running the code in Markdown pages, and comparing what it prints with what they say.

The blocks of a page are run in order, as one program:

- ``python``: run in this process, in one namespace for the whole page. A block whose
  first line is a comment with a file name, ``# model.py``, is written to that file
  instead. A block that asks jax for devices is a program of its own, run as users
  would run it; one that joins several processes is run in two.
- ``text`` after such a block: what it prints. ``...`` stands for anything.
- ``console``: ``$ partir …`` or ``$ python …``, followed by what it prints.
- ``sh``, ``json`` and others are not run.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import partir.cli
from tests.versions import OutputChecker

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./]+\.py)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line where the text begins."""

    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in _BLOCK.finditer(page):
        line = page.count("\n", 0, match.start()) + 2
        yield Block(match[1], match[2], line)


class Page:
    """A page under test, in a folder of its own."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.ran = 0

    def run(self) -> None:
        """Run every block; compare outputs."""
        printed = ""
        for block in blocks(self.path.read_text(encoding="utf-8")):
            if block.language == "python":
                printed = self._python(block)
                self.ran += 1
            elif block.language == "text":
                self._compare(block, block.text, printed)
            elif block.language == "console":
                self._console(block)
                self.ran += 1

    def _python(self, block: Block) -> str:
        if file := _FILE.match(block.text):
            (self.folder / file[1]).write_text(block.text)
            return ""
        if "jax_num_cpu_devices" in block.text:
            return self._programs(block)
        # Line numbers in errors are those of the page.
        code = compile("\n" * (block.line - 1) + block.text, self.path.name, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, self.names)
        return out.getvalue()

    def _programs(self, block: Block) -> str:
        """A program of its own; in two processes if it joins them."""
        text = block.text
        several = re.search(r"localhost:\d+", text)
        if several:
            text = text.replace(several[0], f"localhost:{_free_port()}")
        program = self.folder / "program.py"
        program.write_text(text)
        environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
        running = [
            subprocess.Popen(
                [sys.executable, program, str(number)],
                cwd=self.folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(2 if several else 1)
        ]
        outputs = [process.communicate(timeout=120) for process in running]
        for process, (_, err) in zip(running, outputs, strict=True):
            assert process.returncode == 0, f"{self._place(block)}\n{err}"
        return outputs[0][0]

    def _console(self, block: Block) -> None:
        commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
        for command in commands:
            line, _, want = command.partition("\n")
            while line.endswith("\\"):
                more, _, want = want.partition("\n")
                line = line.removesuffix("\\") + more
            name, *arguments = shlex.split(line)
            assert name == "partir", f"{self._place(block)}: can't run {name}"
            out = io.StringIO()
            with (
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(out),
            ):
                partir.cli.main(arguments)
            self._compare(block, want, out.getvalue())

    def _compare(self, block: Block, want: str, got: str) -> None:
        flags = doctest.ELLIPSIS
        checker = OutputChecker()
        want, got = want.rstrip() + "\n", got.rstrip() + "\n"
        if not checker.check_output(want, got, flags):
            example = doctest.Example("", want)
            difference = checker.output_difference(example, got, flags)
            raise AssertionError(f"{self._place(block)}\n{difference}")

    def _place(self, block: Block) -> str:
        return f"{self.path.name}:{block.line}"


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        port: int = taken.getsockname()[1]
    return port
