"""Mesh axes on a topology, and collectives' times there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

import partir
from partir.mesh import Mesh
from partir.simulate.device.catalogue import _SPECS
from partir.simulate.network.collectives import Network
from partir.simulate.network.topology import Place, place_axes
from partir.spmd.program import KINDS

V5E, V4, H100 = (partir.devices[n] for n in ("tpu_v5e", "tpu_v4", "h100"))


def test_an_axis_for_each_dimension() -> None:
    places = place_axes(Mesh({"B": 16, "M": 8}), V5E)
    assert places["B"] == Place((16,), 1, (True,))
    assert places["M"] == Place((8,), 1, (False,))  # only a full side wraps around


def test_dimensions_left_over_go_to_the_largest() -> None:
    assert place_axes(Mesh({"B": 256}), V5E)["B"].sizes == (16, 16)
    places = place_axes(Mesh({"B": 64, "M": 4}), V4)
    assert places["B"].sizes == (8, 8)
    assert places["M"].sizes == (4,)


def test_more_axes_than_dimensions_share() -> None:
    places = place_axes(Mesh({"A": 4, "B": 4, "C": 4}), V5E)
    assert {axis: place.shared for axis, place in places.items()} == {
        "A": 2,
        "B": 1,
        "C": 2,
    }


def test_nodes_fill_from_the_last_axis() -> None:
    places = place_axes(Mesh({"B": 8, "M": 4}), H100)
    assert (places["M"].inside, places["M"].across) == (4, 1)
    assert (places["B"].inside, places["B"].across) == (2, 4)


def test_links_say_otherwise() -> None:
    places = place_axes(Mesh({"B": 8, "M": 4}, links={"B": "node"}), H100)
    assert (places["B"].inside, places["B"].across) == (8, 1)
    places = place_axes(Mesh({"B": 8, "M": 4}, links={"M": "network"}), H100)
    assert (places["M"].inside, places["M"].across) == (1, 4)
    places = place_axes(Mesh({"B": 16, "M": 4}, links={"B": "xz", "M": "y"}), V4)
    assert places["B"].sizes == (4, 4)


@pytest.mark.parametrize(
    ("mesh", "device", "message"),
    [
        (
            Mesh({"B": 16}),
            replace(H100, network_bytes_per_s=0.0),
            "does not fit h100: a node has 8 and there is no network",
        ),
        (
            Mesh({"B": 16}, links={"B": "node"}),
            H100,
            'axis "B" of 16 is to lie within a node, which has room for 8',
        ),
        (Mesh({"B": 4}, links={"B": "z"}), V5E, "has dimensions x, y"),
    ],
)
def test_a_mesh_that_cannot_sit(mesh: Mesh, device: Any, message: str) -> None:
    with pytest.raises(partir.PartitionError, match=message):
        place_axes(mesh, device)


def test_links_name_axes_of_the_mesh() -> None:
    with pytest.raises(partir.PartitionError, match='mesh has no axis "Q"'):
        Mesh({"B": 4}, links={"Q": "node"})
    with pytest.raises(partir.PartitionError, match='say "node", "network" or'):
        Mesh({"B": 4}, links={"B": ""})


# Times


def test_ring_formula() -> None:
    ring = replace(V5E, topology="line", hop_seconds=0.0)
    network = Network(Mesh({"B": 8}), ring)
    expected = 1e9 * 7 / 8 / ring.link_bytes_per_s
    assert network.seconds("all_gather", ("B",), 1e9) == pytest.approx(expected)
    assert network.seconds("reduce_scatter", ("B",), 1e9) == pytest.approx(expected)
    assert network.seconds("all_reduce", ("B",), 1e9) == pytest.approx(2 * expected)


def test_wrap_around_uses_both_directions() -> None:
    ring = replace(V5E, topology="ring", wrap_size=4, hop_seconds=0.0)
    line = replace(ring, topology="line")
    times = [
        Network(Mesh({"B": 8}), d).seconds("all_gather", ("B",), 1e9)
        for d in (ring, line)
    ]
    assert times[0] == pytest.approx(times[1] / 2)


def test_several_axes_add_their_bandwidths() -> None:
    device = replace(V5E, hop_seconds=0.0)
    network = Network(Mesh({"B": 16, "M": 16}), device)
    both = network.seconds("all_gather", ("B", "M"), 1e9)
    assert both == pytest.approx(1e9 * 255 / 256 / (4 * device.link_bytes_per_s))


def test_two_levels() -> None:
    device = replace(H100, hop_seconds=0.0, network_hop_seconds=0.0)
    network = Network(Mesh({"B": 16}), device)  # 8 in a node, 2 nodes
    within = 1e9 * 7 / 8 / device.link_bytes_per_s
    across = 1e9 / 8 / 2 / device.network_bytes_per_s
    assert network.seconds("all_gather", ("B",), 1e9) == pytest.approx(within + across)


def test_an_axis_of_one_takes_no_time() -> None:
    network = Network(Mesh({"B": 8, "M": 1}), V5E)
    assert network.seconds("all_reduce", ("M",), 1e9) == 0


meshes = st.dictionaries(
    st.sampled_from("ABC"), st.sampled_from([1, 2, 4, 8, 16]), min_size=1
)


@given(
    axes=meshes,
    spec=st.sampled_from(_SPECS),
    kind=st.sampled_from(KINDS),
    count=st.floats(1, 1e12),
    faster=st.floats(1, 100),
)
def test_more_bandwidth_is_never_slower(
    axes: dict[str, int], spec: Any, kind: str, count: float, faster: float
) -> None:
    mesh, group = Mesh(axes), tuple(axes)
    better = replace(
        spec,
        link_bytes_per_s=spec.link_bytes_per_s * faster,
        network_bytes_per_s=spec.network_bytes_per_s * faster,
    )
    now = Network(mesh, spec).seconds(kind, group, count)
    assert Network(mesh, better).seconds(kind, group, count) <= now
    assert Network(mesh, spec).seconds(kind, group, count / 2) <= now
