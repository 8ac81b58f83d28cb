"""The pairs as a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from benchmarks.pairs.cases import AXES, PAIRS, RESTING
from benchmarks.pairs.measure import NAMES, OURS, Made, Row
from benchmarks.results_page import head, markdown, virtual_devices

FIGURES: dict[str, Callable[[Made], float]] = {
    "step": lambda made: made.step.wall,
    "processors": lambda made: made.step.processors,
    "temporaries": lambda made: made.temporaries,
    "bytes": lambda made: made.bytes_sent,
    "first call": lambda made: made.first_call.wall,
    "its processors": lambda made: made.first_call.processors,
}
KINDS = (
    "all-gather",
    "all-reduce",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
)


def short(row: Row) -> str:
    """A line for who waits."""
    ratios = ", ".join(
        f"{name} {row.ratio(figure):.2f}x" for name, figure in FIGURES.items()
    )
    return f"{row.pair}: {ratios}; noise {row.noise:.2f}"


def page(rows: Sequence[Row]) -> str:
    """How it was made, the summary, and a table per figure."""
    rest = [row for row in rows if row.pair in RESTING]
    plain = [row for row in rows if row.pair not in RESTING]
    titled = (
        (f"{len(plain)} pairs of {len(PAIRS)}", plain),
        ("Weights that rest, where they are larger", rest),
    )
    summaries = [_summary(some, title) for title, some in titled if some]
    return "\n\n".join([_head(), *summaries, _ratios(rows), _absolute(rows)]) + "\n"


def _head() -> str:
    mesh = ", ".join(f"{name}={size}" for name, size in AXES.items())
    title = head("Beside Shardy and GSPMD, on CPUs", "pairs", virtual_devices())
    return f"""\
{title}

Mesh {mesh}. Equal functions, equal shardings of arguments and results. A ratio is
partir's figure by the better of Shardy's and GSPMD's. *processors* is the time that
processors spend on a step, and on the first call, of all threads together; it is less
disturbed by what else a machine does. First calls are proved, and the better of two, in
turns. Schedules with *rest* have one more tactic: the
parameters of ZeRO-2 and ZeRO-3 stay in their tiles where that sends fewer bytes."""


def _summary(rows: Sequence[Row], title: str) -> str:
    lines = [("figure", "pairs", "geometric mean", "worst", "above 1.05x")]
    for name, figure in FIGURES.items():
        found = _known(row.ratio(figure) for row in rows)
        above = sum(ratio > 1.05 for ratio in found)
        worst = f"{max(found):.2f}x"
        lines.append((name, str(len(found)), f"{_mean(found):.2f}x", worst, str(above)))
    noise = _known(max(row.noise, 1 / row.noise) for row in rows)
    text = (
        f"Noise, one program against itself: {_mean(noise):.3f}x in the mean, "
        f"{max(noise):.2f}x at worst."
    )
    return f"## {title}\n\n{markdown(lines[0], lines[1:])}\n\n{text}"


def _known(ratios: Iterable[float]) -> list[float]:
    """Without what was not measured: of some programs only the text may be known."""
    return [ratio for ratio in ratios if not math.isnan(ratio)]


def _shown(figure: float, digits: int) -> str:
    return "-" if math.isnan(figure) else f"{figure:.{digits}f}"


def _mean(ratios: Iterable[float]) -> float:
    found = [math.log(max(ratio, 1e-9)) for ratio in ratios]
    return math.exp(sum(found) / len(found))


def _ratios(rows: Sequence[Row]) -> str:
    lines = [("model", "form", "larger", "schedule", *FIGURES, "noise")]
    for row in rows:
        pair = row.pair
        found = [_shown(row.ratio(figure), 2) for figure in FIGURES.values()]
        names = (pair.model, pair.form, pair.regime, pair.schedule)
        lines.append((*names, *found, _shown(row.noise, 2)))
    return f"## Ratios\n\n{markdown(lines[0], lines[1:])}"


def _absolute(rows: Sequence[Row]) -> str:
    header = ("pair", "step ms", "temporaries MB", "MB sent", "first call s")
    header += ("collectives AG/AR/RS/A2A/CP", "copies")
    lines = [header]
    for row in rows:
        made = [row.made[name] for name in NAMES]
        lines.append(
            (
                str(row.pair),
                _each(_shown(one.step.wall * 1e3, 1) for one in made),
                _each(f"{one.temporaries / 1e6:.2f}" for one in made),
                _each(f"{one.bytes_sent / 1e6:.2f}" for one in made),
                _each(_shown(one.first_call.wall, 1) for one in made),
                _each(_counts(one) for one in made),
                _each(str(one.copies) for one in made),
            )
        )
    order = f"{OURS} · {' · '.join(NAMES[1:])}"
    return f"## Figures\n\n{order}\n\n{markdown(lines[0], lines[1:])}"


def _counts(made: Made) -> str:
    return "/".join(str(made.collectives.get(kind, 0)) for kind in KINDS)


def _each(cells: Iterable[str]) -> str:
    return " · ".join(cells)
