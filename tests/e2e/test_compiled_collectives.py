"""What XLA compiles holds the collectives that we list, and no others."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import jax
import pytest

import partir
from benchmarks.compiled_text import CompiledText
from benchmarks.models import schedules, transformer
from partir.spmd import export_policy
from tests.e2e.compare import MESH

CONFIG = transformer.Config(
    layers=2, width=16, heads=4, head_dim=4, hidden=32, vocab=16, sequence=8, batch=8
)
_KINDS = "all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute"
# A pair of -start and -done counts once, by its start.
_COLLECTIVE = re.compile(rf"= .*? ({_KINDS})(?:-start)?\(([^)]*)\)")


def operand_counts(hlo: str) -> Counter[str]:
    """Collectives of each kind; one that XLA has combined counts per operand."""
    counts: Counter[str] = Counter()
    for line in hlo.splitlines():
        found = _COLLECTIVE.search(line)
        if found:
            kind, operands = found.groups()
            counts[kind.replace("-", "_")] += operands.count("%")
    return counts


def test_operands_are_counted() -> None:
    hlo = """
      %a = f32[2]{0} all-reduce(%x), channel_id=1, to_apply=%add
      %b = (f32[2]{0}, f32[4]{0}) all-reduce(%x, %y), channel_id=2, to_apply=%add
      %c = (f32[2]{0}, f32[8]{0}) all-gather-start(%x), dimensions={0}
      %d = f32[8]{0} all-gather-done(%c)
      %e = f32[8]{0} add(%all-reduce.1, %all-reduce.2)
    """
    assert operand_counts(hlo) == {"all_reduce": 3, "all_gather": 1}


SCHEDULES = ["BP", "BP+MP", "BP+MP+Z2", "BP+MP+Z3"]


def compiled(name: str) -> tuple[partir.Partitioned, str]:
    """A step under a schedule, and what XLA makes of it."""
    args, _ = transformer.example_args(CONFIG)
    partitioned = partir.partition(
        transformer.train_step,
        MESH,
        schedules.SCHEDULES[name],
        args=args,
        donate_argnums=(0, 1),
    )
    lowered = partitioned.compile().lower_abstract()
    made = lowered.compile({"xla_backend_optimization_level": 0})
    return partitioned, made.as_text()


@pytest.mark.parametrize("name", SCHEDULES)
def test_nothing_is_added(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = replace(export_policy.XLA_CPU, name="", moves_together=False)
    monkeypatch.setitem(export_policy._PLATFORMS, "cpu", apart)
    partitioned, text = compiled(name)
    found, listed = operand_counts(text), Counter(partitioned.collectives)
    assert found - listed == Counter(), "collectives that are not listed"
    missing = listed - found
    # XLA may see that a weight gathered forward and backward is the same.
    assert set(missing) <= {"all_gather"}
    assert missing["all_gather"] < listed["all_gather"] or not missing


@pytest.mark.parametrize("name", SCHEDULES)
def test_what_is_sent_together_is_what_is_listed(name: str) -> None:
    """There are fewer collectives, which send as many bytes."""
    partitioned, text = compiled(name)
    found, listed = operand_counts(text), Counter(partitioned.collectives)
    assert found - listed == Counter(), "collectives that are not listed"
    assert set(found) == {kind for kind, count in listed.items() if count}
    assert CompiledText(text).bytes_sent == partitioned.bytes_communicated


def test_nothing_is_moved_on_the_way_in_or_out() -> None:
    """A program without collectives compiles to one without."""
    rows = partir.ManualPartition({"x": 0, "keys": 0}, axis="B", name="rows")
    columns = partir.ManualPartition({"x": 1}, axis="M", name="columns")
    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.ShapeDtypeStruct((8, 4), "float32")
    partitioned = partir.partition(
        lambda x, keys, scale: (x * scale, keys), MESH, [rows, columns], (x, keys, 2.0)
    )
    assert sum(partitioned.collectives.values()) == 0
    compiled = partitioned.compile().lower_abstract().compile()
    assert operand_counts(compiled.as_text()) == {}
