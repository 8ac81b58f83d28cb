"""A learned simulator in jraph: encode, pass messages, decode."""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import jraph
from jax import Array

import partir
from benchmarks.zoo.case import Case, drawn, floats, tokens, training_case, wide_floats

NODES, EDGES, LATENT, ROUNDS = 16, 32, 16, 2


def _mlp(*inputs: Array) -> Array:
    hidden = hk.nets.MLP([LATENT, LATENT])(jnp.concatenate(inputs, axis=-1))
    return hk.LayerNorm(-1, True, True)(hidden)


def _simulate(graph: jraph.GraphsTuple) -> Array:
    embed = jraph.GraphMapFeatures(hk.Linear(LATENT), hk.Linear(LATENT))
    graph = embed(graph)
    for _ in range(ROUNDS):
        update = jraph.GraphNetwork(
            update_edge_fn=lambda e, s, r, _: e + _mlp(e, s, r),
            update_node_fn=lambda n, s, r, _: n + _mlp(n, s, r),
        )
        graph = update(graph)
    return hk.Linear(3)(graph.nodes)


def simulator() -> Case:
    """The step of a graph network, its edges tiled over one axis."""
    network = hk.without_apply_rng(hk.transform(_simulate))
    graph = jraph.GraphsTuple(
        nodes=floats(0, NODES, 8),
        edges=floats(1, EDGES, 4),
        senders=tokens(2, NODES, EDGES),
        receivers=tokens(3, NODES, EDGES),
        n_node=jnp.asarray([NODES]),
        n_edge=jnp.asarray([EDGES]),
        globals=None,
    )
    with wide_floats():
        params = drawn(jax.eval_shape(network.init, jax.random.PRNGKey(0), graph))

    def loss(params: Any, graph: jraph.GraphsTuple, targets: Array) -> Array:
        return jnp.mean((network.apply(params, graph) - targets) ** 2)

    edges = {f"batch/0/{name}": 0 for name in ("edges", "senders", "receivers")}
    matrices = {"params/mlp/~/linear_0/w": 1, "params/mlp_1/~/linear_0/w": 1}
    schedule = [
        partir.ManualPartition(edges, axis="B", name="ES"),
        partir.ManualPartition(matrices, axis="M", name="MP"),
    ]
    return training_case(loss, params, (graph, floats(4, NODES, 3)), schedule)
