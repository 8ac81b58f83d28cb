"""Expert schedules of the benchmarks' models, small, against one device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import partir
from benchmarks.models.experts import MODELS, Model
from tests.e2e.compare import QUICK, assert_same

pytestmark = pytest.mark.usefixtures("double")

# T48 is T32 with other sizes, and the tall MLP the wide one.
SMALL = [m for name, m in MODELS.items() if name not in ("T48", "tall MLP")]


def widened(struct: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """Floats in 64 bits, where a missing reduction cannot hide."""
    dtype = jnp.float64 if jnp.issubdtype(struct.dtype, jnp.floating) else struct.dtype
    return jax.ShapeDtypeStruct(struct.shape, dtype)


def drawn(model: Model) -> tuple[Any, ...]:
    """Arguments at random: state that is not zero, indices that every model has."""
    rng = np.random.default_rng(0)

    def draw(path: Any, struct: jax.ShapeDtypeStruct) -> np.ndarray:
        if struct.dtype.kind == "i":
            return rng.integers(1, 16, struct.shape).astype(struct.dtype)
        made = rng.uniform(0.1, 0.5, struct.shape).astype(struct.dtype)
        # Adam's second moment is positive; all else has both signs.
        positive = "nu" in jax.tree_util.keystr(path)
        return made if positive else made * rng.choice([-1.0, 1.0], struct.shape)

    args = jax.tree.map(widened, model.small_case()[1])
    return tuple(jax.tree_util.tree_map_with_path(draw, args))


def enough(model: Model) -> list[str]:
    """The longest schedules, until every tactic is in one of them."""
    found = model.schedules_on(model.small_mesh)
    seen: set[int] = set()
    names = []
    for name in sorted(found, key=lambda name: -len(found[name])):
        tactics = {id(tactic) for tactic in found[name]}
        if tactics - seen:
            names.append(name)
        seen |= tactics
    return names


@pytest.mark.parametrize("model", SMALL, ids=lambda model: model.name)
def test_expert_schedules_equal_one_device(model: Model) -> None:
    fn, args = model.small_case()[0], drawn(model)
    want = jax.jit(fn, compiler_options=QUICK)(*args)
    program = partir.trace(fn, *args)
    run = enough(model)
    for name, schedule in model.schedules_on(model.small_mesh).items():
        done = partir.partition(
            program, dict(model.small_mesh), schedule, compiler_options=QUICK
        )
        assert not done.steps[-1].conflicts, name
        if name in run:
            assert_same(done.compile()(*args), want)
