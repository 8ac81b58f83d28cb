"""Names on a command line: which of those that there are, an error for any other."""

from __future__ import annotations

import argparse
from collections.abc import Iterable


def names(
    parser: argparse.ArgumentParser, text: str | None, known: Iterable[str], mark: str
) -> list[str]:
    """The names in `text`, parted by `mark`, all of them if it is None.

    A benchmark that skips a name it does not know prints an empty table.
    """
    known = list(known)
    wanted = known if text is None else text.split(mark)
    for name in wanted:
        if name not in known:
            parser.error(f"no model {name!r}; there are {', '.join(known)}")
    return wanted
