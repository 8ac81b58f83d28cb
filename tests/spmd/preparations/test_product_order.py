"""Products that free memory come before the next that takes it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import partir
from tests.explain.programs import f32

DEVICES = "h100", "tpu_v5e"
BP = partir.ManualPartition({"x": 0}, axis="B", name="BP")
MP = partir.ManualPartition({"up": 1, "down": 0}, axis="M", name="MP")
Z2 = partir.ManualPartition({}, axis="B", name="Z2", outputs={"**": 1})


def layers(up: Array, down: Array, x: Array) -> Array:
    for _ in range(2):
        x, _ = layer(x, (up, down))
    return jnp.sum(x**2)


def layer(x: Array, weights: tuple[Array, Array]) -> tuple[Array, None]:
    return jax.nn.relu(x @ weights[0]) @ weights[1], None


def single(up: Array, down: Array, x: Array) -> Array:
    return jnp.sum(layer(x, (up, down))[0] ** 2)


def scanned(up: Array, down: Array, x: Array) -> Array:
    return jnp.sum(lax.scan(layer, x, (up, down))[0] ** 2)


def written(loss: Any, rows: int, *tactics: Any, device: Any) -> str:
    """The text of a training step's gradients, which is proved."""
    stack = () if loss in (layers, single) else (4,)
    args = f32(*stack, 8, 32), f32(*stack, 32, 8), f32(rows, 8)
    gradients = jax.grad(loss, argnums=(0, 1))
    axes = {"B": 4, "M": 2}
    done = partir.partition(gradients, axes, tactics, args=args, device=device)
    assert done.verify().proved
    text: str = done.stablehlo()
    return text


def waiting(text: str) -> list[str]:
    """Of each op that a barrier's first result goes to: its kind and what it waits for.

    What is waited for is shown by the kind of the op that makes it.
    """
    kinds = dict(re.findall(r'^ *(%\w+)(?::\d+)? = "?stablehlo\.(\w+)', text, re.M))
    found = []
    barrier = r'(%\w+):\d+ = "?stablehlo\.optimization_barrier"?\(?(.*?)\)? [:<{]'
    for name, operands in re.findall(barrier, text):
        reader = re.search(rf'"?stablehlo\.(\w+)"?.*{name}#0', text)
        assert reader is not None
        awaited = [kinds.get(v, "argument") for v in re.findall(r"%\w+", operands)[1:]]
        found.append(f"{reader[1]} after {' '.join(awaited)}")
    return found


@pytest.mark.identity("waiting")
@pytest.mark.parametrize("device", DEVICES)
def test_a_product_waits_for_gradients_that_free_activations(device: str) -> None:
    text = written(single, 1024, BP, Z2, device=device)
    assert waiting(text)[0].startswith("dot_general after")
    assert waiting(written(layers, 1024, BP, device="cpu"))


def test_on_cpus_no_weight_waits_that_is_gathered() -> None:
    gathered = partir.ManualPartition({"up": 0, "down": 0}, axis="B", name="Z3")
    text = written(layers, 1024, BP, gathered, device="cpu")
    spec = partir.devices["cpu"]
    export = replace(spec.export, name="mine", orders_gathered=True)
    other = written(layers, 1024, BP, gathered, device=replace(spec, export=export))
    assert len(waiting(other)) > len(waiting(text))


def test_what_is_read_behind_a_wait_is_read_through_the_barrier_on_cpus() -> None:
    """XLA on CPUs drops what nobody reads of a barrier."""
    text = written(layers, 1024, BP, device="cpu")
    for name in re.findall(r"(%\w+):2 = \"?stablehlo\.optimization_barrier", text):
        assert f"{name}#1" in text


def test_on_tpus_no_product_waits_for_gradients_that_stay_whole() -> None:
    made = {d: waiting(written(layers, 1024, BP, device=d)) for d in DEVICES}
    assert made["h100"][0] == "dot_general after dot_general"
    assert made["tpu_v5e"] == []


def test_gradients_that_are_larger_than_activations_wait_for_nothing() -> None:
    assert waiting(written(layers, 8, BP, device="h100")) == []


def test_a_product_that_is_sent_does_not_wait() -> None:
    text = written(layers, 1024, BP, MP, device="h100")
    for line in text.splitlines():
        if "all_reduce" in line:
            (sent,) = re.findall(r"all_reduce\"?\((%\w+)\)", line)
            made = re.search(rf"{sent} = .*", text)
            assert made is not None
            assert "#0" not in made[0]
    assert waiting(text)


def test_a_loop_waits_for_gradients_before_it() -> None:
    def headed(up: Array, down: Array, x: Array) -> Array:
        made = lax.scan(layer, x, (up, down))[0]
        return jnp.sum(jnp.tanh(made @ up[0]) ** 2)

    text = written(headed, 1024, BP, device="h100")
    assert "while after dot_general" in waiting(text)


def test_what_is_scattered_in_a_loop_is_held_for_gpus() -> None:
    texts = {
        device: written(scanned, 8, BP, Z2, device=device)
        for device in ("h100", "tpu_v5e")
    }
    held = {}
    for device, text in texts.items():
        scatters = re.findall(r'(%\w+) = "?stablehlo\.reduce_scatter', text)
        assert scatters
        held[device] = [
            bool(re.search(rf"optimization_barrier\"?\(?{s}\b", text)) for s in scatters
        ]
    assert all(held["h100"])
    assert not any(held["tpu_v5e"])


def test_in_loops_products_wait_on_gpus_only() -> None:
    made = {d: waiting(written(scanned, 1024, BP, Z2, device=d)) for d in DEVICES}
    assert made["h100"]
    assert not made["tpu_v5e"]


def test_what_is_waited_for_is_made_before() -> None:
    """Also if sums are in the loop, behind what is written of a gradient."""
    spec = partir.devices["h100"]
    export = replace(spec.export, name="mine", sums_in_loops=True)
    text = written(scanned, 1024, BP, device=replace(spec, export=export))
    assert waiting(text) == ["dot_general after dot_general"]
