"""The verifier held against chains of ops, right and wrong, on two devices.

    python -m partir.fuzz.chains [--seeds FIRST END] [--mode MODE ...]

Prints each pair that shows a mistake of the verifier, with its two modules, then how
many were judged how. The exit code is 1 if there was such a mistake.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from partir.columns import aligned
from partir.fuzz.chains.judge import KINDS_OF_VERDICTS, Verdict, tried
from partir.fuzz.chains.modes import MODES


def table(verdicts: Iterable[Verdict]) -> list[str]:
    """A row for each way to be judged, a column for each mode."""
    counts = Counter((one.mode, one.judged) for one in verdicts)
    modes = [mode for mode in MODES if any(key[0] == mode for key in counts)]
    rows = [["", *modes, "all"]]
    for judged in KINDS_OF_VERDICTS:
        numbers = [counts[mode, judged] for mode in modes]
        rows.append([judged, *map(str, numbers), str(sum(numbers))])
    return aligned(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Try all pairs of some seeds; 1 if the verifier is mistaken about one."""
    parser = argparse.ArgumentParser(description="Chains that the verifier judges.")
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 100), help="0 100")
    parser.add_argument("--mode", nargs="*", choices=MODES, default=list(MODES))
    options = parser.parse_args(argv)
    found = []
    for mode in options.mode:
        for seed in range(*options.seeds):
            for verdict in tried(seed, mode):
                found.append(verdict)
                if verdict.failed:
                    print(verdict, flush=True)
    print("\n".join(table(found)))
    return 1 if any(verdict.failed for verdict in found) else 0


if __name__ == "__main__":
    sys.exit(main())
