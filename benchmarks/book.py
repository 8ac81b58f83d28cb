"""All results on one page: ``benchmarks/results/book.md``.

    python -m benchmarks.book

Nothing is measured here: each part is a page of ``benchmarks/results`` with its own
command and date. ``make bench`` measures those of this machine anew before.
"""

from __future__ import annotations

import re

from benchmarks.results_page import RESULTS, head

FIRST = ("collectives", "pairs", "partition_time", "composability", "lines_of_code")


def parts() -> list[str]:
    """Pages in order: what is asked first, then all others."""
    found = {path.stem for path in RESULTS.glob("*.md")} - {"README", "book"}
    return [*(n for n in FIRST if n in found), *sorted(found.difference(FIRST))]


def book() -> str:
    """The page."""
    texts = [demoted((RESULTS / f"{name}.md").read_text()) for name in parts()]
    titles = [text.splitlines()[0].removeprefix("## ") for text in texts]
    contents = "\n".join(f"- [{title}](#{anchor(title)})" for title in titles)
    opening = f"{head('The benchmark book', 'book')}\n\n{contents}"
    return "\n\n".join([opening, *(text.strip() for text in texts)]) + "\n"


def demoted(text: str) -> str:
    """Headings one level lower."""
    return re.sub(r"^#", "##", text, flags=re.MULTILINE)


def anchor(title: str) -> str:
    """What links to a heading say."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def main() -> None:
    """Write the page."""
    path = RESULTS / "book.md"
    path.write_text(book())
    print(f"{path}: {len(parts())} parts")


if __name__ == "__main__":
    main()
