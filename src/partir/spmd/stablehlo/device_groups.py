"""Groups of devices that a collective names, as rows of numbers and as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from partir.mesh import Mesh


def alias_of(kind: str, *groups: Sequence[str]) -> str:
    """A name in MLIR for tuples of axes, whose own names hold no "-".

    >>> alias_of("groups", ["data", "model"]), alias_of("groups", ["data_model"])
    ('#groups_data-model', '#groups_data_model')
    >>> alias_of("pairs", ["a", "b"], ["b", "a"])
    '#pairs_a-b--b-a'
    """
    return f"#{kind}_{'--'.join('-'.join(axes) for axes in groups)}"


def groups_by_axes(mesh: Mesh, axes: Sequence[str]) -> str:
    """Groups of devices that differ only in these axes, without any numbers."""
    sizes = ", ".join(
        f'#stablehlo.mesh_axis<name = "{name}", size = {size}>'
        for name, size in mesh.axes.items()
    )
    refs = ", ".join(f'#stablehlo.axis_ref<name = "{name}">' for name in axes)
    return (
        "#stablehlo.replica_group_mesh_axes<mesh = "
        f"#stablehlo.mesh<axes = [{sizes}]>, axes = [{refs}]>"
    )


def numbers_text(values: np.ndarray) -> str:
    """As MLIR writes them, in hexadecimal digits if there are several."""
    shape = "x".join(map(str, values.shape))
    if values.size == 1:
        return f"dense<{values.item()}> : tensor<{shape}xi64>"
    bits = values.astype("<i8").tobytes().hex().upper()
    return f'dense<"0x{bits}"> : tensor<{shape}xi64>'


def replica_groups(mesh: Mesh, axes: Sequence[str]) -> np.ndarray:
    """Devices that differ only in `axes`, a row each, major axis first.

    >>> replica_groups(Mesh({"B": 2, "M": 2}), ["B"]).tolist()
    [[0, 2], [1, 3]]
    """
    names = mesh.names
    devices = np.arange(mesh.size).reshape([mesh.axes[n] for n in names])
    others = [n for n in names if n not in axes]
    order = [names.index(n) for n in (*others, *axes)]
    size = math.prod(mesh.axes[a] for a in axes)
    return devices.transpose(order).reshape(-1, size)


def permutation(mesh: Mesh, have: Sequence[str], want: Sequence[str]) -> np.ndarray:
    """Pairs (source, target) that reorder a dimension's axes.

    The device whose tile has number n when counted by `have` sends it to the device
    whose tile has number n when counted by `want`.
    """
    sources = replica_groups(mesh, have)
    targets = replica_groups(mesh, want)
    return np.stack([sources.ravel(), targets.ravel()], axis=1)
