"""Step time, temporaries, bytes and first call beside Shardy's and GSPMD's.

    python -m benchmarks.pairs [--only TEXT] [--rounds 9] [--write] [--json FILE]

48 pairs of a model and a schedule (`cases.py`), and twelve with weights that rest, on
eight virtual CPU devices. All
three get the same function and the same shardings of arguments and results. Calls take
turns; a step's time is the best of nine. *Noise* is the same ratio for one and the same
program (Shardy's) against itself. Bytes are those that one device sends, read off the
compiled program, loops multiplied; the first call goes from the function to the first
results: tracing, partitioning, proving, compiling, running. It is the better of two,
for each of the three, in turns: ours comes first, and last.

``--json`` keeps rows as they come; a run that was cut short goes on where it was.
``--write`` puts the table into ``benchmarks/results/pairs.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

FLAG = "--xla_force_host_platform_device_count=8"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA warns of GSPMD at length

from benchmarks.pairs.cases import PAIRS, RESTING  # noqa: E402
from benchmarks.pairs.measure import Row, measure  # noqa: E402
from benchmarks.pairs.page import page, short  # noqa: E402
from benchmarks.results_page import RESULTS  # noqa: E402


def main() -> int:
    """Measure what was asked for, print it as it comes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="pairs whose name has this in it")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = kept(options.json)
    done = {row.pair for row in rows}
    for pair in (*PAIRS, *RESTING):
        if pair not in done and all(w in str(pair) for w in options.only.split(";")):
            rows.append(measure(pair, options.rounds))
            print(short(rows[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps([asdict(row) for row in rows]))
    if not rows:
        print(f"no pair has {options.only!r} in its name", file=sys.stderr)
        return 2
    text = page(rows)
    print(text)
    if options.write:
        (RESULTS / "pairs.md").write_text(text)
    return 0


def kept(path: Path | None) -> list[Row]:
    """What an earlier run, perhaps cut short, has left."""
    if path is None or not path.exists():
        return []
    return [Row.from_data(data) for data in json.loads(path.read_text())]


if __name__ == "__main__":
    sys.exit(main())
