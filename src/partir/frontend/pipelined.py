"""`pipelined`: a stack of equal layers as stages that microbatches pass through.

Plain JAX. All stages compute at once, each on another microbatch (`vmap` over stages),
and a scan over ticks hands what they made to the next one. Where the stages are tiled,
each device computes its own, and the hand-over is a permute of one microbatch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from partir.frontend.pipeline_plan import (
    PipelinePlan,
    check_body,
    check_input,
    check_stack,
)

Body = Callable[[Any, Any], Any]


def pipelined(
    body: Body, stages: int, microbatches: int, *, repeats: int = 1
) -> Callable[[Any, Any], Any]:
    """A stack of equal layers, to be split into pipeline stages by a tactic.

    By itself it changes nothing: the result is that of the layers one after another. A
    tactic that tiles the stacked dimension of the parameters puts stages on devices.

    Args:
        body: ``body(layer, x) -> x``, one layer; what it returns has the shape that it
            is given.
        stages: how many stages; divides the number of layers.
        microbatches: how many parts the batch is cut into; divides its size. The more,
            the smaller the part of the time in which stages wait: ``stages - 1`` of
            ``microbatches * repeats + stages - 1`` ticks.
        repeats: how often a microbatch goes round all stages. With more than one, each
            stage has as many chunks of layers, the batch is cut into a multiple of
            `stages`, and parameters are stacked ``[repeats, layers / repeats, ...]``,
            of which the second dimension is the one to tile.

    Returns:
        A function of parameters, each with a leading dimension of layers, and `x`, an
        array or a tree of arrays whose first dimension is the batch.

    Example:
        >>> import jax, jax.numpy as jnp, partir
        >>> layers = partir.pipelined(lambda w, x: jnp.tanh(x @ w), 4, 8)
        >>> layers(jnp.zeros((4, 2, 2)), jnp.ones((16, 2))).shape
        (16, 2)
        >>> w = jax.ShapeDtypeStruct((4, 2, 2), "float32")
        >>> x = jax.ShapeDtypeStruct((16, 2), "float32")
        >>> stages = partir.ManualPartition({"params": 0}, axis="S", name="stages")
        >>> p = partir.partition(layers, {"S": 4}, [stages], args=(w, x))
        >>> p.collectives["collective_permute"]
        11
    """
    plan = PipelinePlan(stages, microbatches, repeats)

    def pipeline(params: Any, x: Any) -> Any:
        check_stack(plan, params)
        check_input(plan, x)
        check_body(plan, body, params, x)
        with jax.named_scope(plan.scope):
            return _run(plan, body, params, x)

    return pipeline


def _run(plan: PipelinePlan, body: Body, params: Any, x: Any) -> Any:
    chunks = jax.tree.map(lambda leaf: _by_stage(plan, leaf), params)
    inputs = jax.tree.map(lambda leaf: _cut(plan, leaf), x)

    def tick(made: Any, time: Array) -> tuple[Any, Any]:
        mine = jax.tree.map(lambda leaf: _current(plan, leaf, time), chunks)
        taken = jax.tree.map(lambda m, i: _taken(plan, m, i, time), made, inputs)
        made = jax.vmap(lambda layers, x: _stage(body, layers, x))(mine, taken)
        return made, jax.tree.map(lambda leaf: _at(leaf, -1), made)

    start = jax.tree.map(lambda leaf: _filler(plan, leaf), inputs)
    _, left = lax.scan(tick, start, jnp.arange(plan.ticks))
    return jax.tree.map(lambda leaf: _joined(plan, leaf), left)


def _at(leaf: Array, place: int) -> Array:
    """One of a stack; `leaf[place]` starts at a variable before jax 0.9."""
    return lax.index_in_dim(leaf, place, keepdims=False)


def _stage(body: Body, layers: Any, x: Any) -> Any:
    """One stage's layers, one after another."""
    return lax.scan(lambda x, layer: (body(layer, x), None), x, layers)[0]


def _by_stage(plan: PipelinePlan, leaf: Array) -> Array:
    """Layers by stage, repeat and place in the chunk.

    Layers of a stage lie together in the stack (for each repeat), so that tiles of the
    stack are stages and nothing moves.
    """
    split = (plan.repeats, plan.stages, -1)
    return leaf.reshape(*split, *leaf.shape[plan.stacked_dims :]).swapaxes(0, 1)


def _current(plan: PipelinePlan, chunks: Array, time: Array) -> Array:
    """For each stage the chunk of the repeat that its microbatch is in."""
    if plan.repeats == 1:
        return chunks[:, 0]
    repeat = (time - jnp.arange(plan.stages)) // plan.stages % plan.repeats

    def chosen(own: Array, number: Array) -> Any:
        return lax.dynamic_index_in_dim(own, number, 0, keepdims=False)

    found: Array = jax.vmap(chosen)(chunks, repeat)
    return found


def _cut(plan: PipelinePlan, leaf: Array) -> Array:
    """Microbatches: every n-th row, so that each has its part of every tile."""
    return leaf.reshape(-1, plan.microbatches, *leaf.shape[1:]).swapaxes(0, 1)


def _filler(plan: PipelinePlan, inputs: Array) -> Array:
    """What stages compute on before anything reaches them: nobody reads the results.

    The first microbatch rather than zeros: numbers that a model can expect, so that
    gradients, which are multiplied by zero here, are finite.
    """
    first = lax.stop_gradient(_at(inputs, 0))
    return jnp.broadcast_to(first, (plan.stages, *first.shape))


def _taken(plan: PipelinePlan, made: Array, inputs: Array, time: Array) -> Array:
    """What each stage takes in: a new microbatch, or what the one before has made."""
    turn, place = time // plan.stages, time % plan.stages
    number = turn // plan.repeats * plan.stages + place
    last = plan.microbatches - 1
    new = lax.dynamic_index_in_dim(inputs, jnp.minimum(number, last), 0)
    stage = jnp.arange(plan.stages).reshape(-1, *[1] * (made.ndim - 1))
    starts = (stage == 0) & (turn % plan.repeats == 0)
    return jnp.where(starts, new, _handed_on(plan, made))


def _handed_on(plan: PipelinePlan, made: Array) -> Array:
    """To the next stage; from the last one to the first if there are repeats."""
    if plan.repeats > 1:
        return jnp.roll(made, 1, 0)
    edges = [(1, -1, 0), *[(0, 0, 0)] * (made.ndim - 1)]
    return lax.pad(made, jnp.zeros((), made.dtype), edges)


def _joined(plan: PipelinePlan, left: Array) -> Array:
    """The batch, from what left the last stage at every tick."""
    full = left[plan.stages - 1 :]
    if plan.repeats > 1:
        by_turn = (-1, plan.repeats, plan.stages, *full.shape[1:])
        full = full.reshape(by_turn)[:, -1]
        full = full.reshape(plan.microbatches, *full.shape[2:])
    return full.swapaxes(0, 1).reshape(-1, *full.shape[2:])
