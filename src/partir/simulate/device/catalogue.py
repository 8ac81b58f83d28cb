"""Built-in device specs, one literal each.

Peaks and bandwidths are the makers' (dense bfloat16, one way); where a measured figure
is known it is used for links. Sources: Google Cloud's pages on each TPU version
(docs.cloud.google.com/tpu/docs) for flops, memory, pod sizes and network bandwidth per
pod; Google's "How to Scale Your Model" (jax-ml.github.io/scaling-book) for bandwidth
per link and wrap-around; NVIDIA's and AMD's data sheets for GPUs. TPU v3's links are
uncertain. Tile sizes are those of the matrix units: 128 x 128 (256 x 256 since v6e)
fed by 8 rows at a time; tensor cores' are small. 7 microseconds per GPU kernel and 70%
of peak, where nothing else is said, are what AutoParallel (PyTorch) counts with; other
`matrix_efficiency`, and what all TPUs or all GPUs have of `opaque_efficiency`,
`memory_efficiency`, `overlap_cost` and `node_lateness`, are fitted on published runs
(``python -m benchmarks.published_runs --fit``).

A device is what JAX has for one: a chip, but a core of v3 and of v7, of which a chip
has two. Such a core has half of its chip's flops, memory and bandwidth, and half of
each of its links. A TPU's memory is what its compiler has for programs, as libtpu
0.0.42.1 says when it refuses a larger one.
"""

from __future__ import annotations

from functools import partial

from partir.simulate.device.fusion_policy import XLA_CPU, XLA_GPU, XLA_TPU
from partir.simulate.device.lookup import Devices
from partir.simulate.device.spec import DeviceSpec
from partir.spmd import export_policy

_GIB = 2.0**30

_TPU = partial(
    DeviceSpec,
    topology="torus",
    order="program",
    fusion=XLA_TPU,
    export=export_policy.XLA_TPU,
    wrap_size=4,
    matrix_tile=(8, 128, 128),
    # Products of float32 are done in bfloat16 unless a precision is asked for.
    float32_rate=1.0,
    packs=False,
    products_in_parts=True,
    opaque_efficiency=0.4,
    overlap_cost=1.0,
    kernel_seconds=1e-6,
    hop_seconds=1e-6,
    network_hop_seconds=1e-5,
    node_lateness=0.01,
    combine_bytes=30 * 2**20,  # as on GPUs: TPUs' own is not published
    collectives_apart=True,
    reduces_in_place=True,
    orders_reads=True,
    gathers_ahead=3,
    updates_at_once=True,
)
_GPU = partial(
    DeviceSpec,
    topology="switch",
    order="late_products",
    fusion=XLA_GPU,
    export=export_policy.XLA_GPU,
    matrix_tile=(16, 16, 16),
    # Products of float32 are done in TF32, at half the rate.
    float32_rate=0.5,
    opaque_efficiency=0.3,
    memory_efficiency=0.85,
    overlap_cost=0.45,
    kernel_seconds=7e-6,
    hop_seconds=1e-6,
    network_hop_seconds=5e-6,
    node_lateness=0.015,
    combine_bytes=30 * 2**20,  # xla_gpu_all_reduce_combine_threshold_bytes
    reduces_in_place=True,
    over_fused=True,
    product_bytes=4 * 2**20,  # XLA gives cuBLAS 32 MiB from Hopper on
)

_SPECS = (
    _TPU(
        name="tpu_v3",
        flops_per_s=61.5e12,  # a core: half of a chip's 123
        memory_bytes=15.48 * _GIB,
        memory_bytes_per_s=450e9,
        link_bytes_per_s=41e9,  # uncertain: 4 links, 656 Gbit/s each, for two cores
        node_size=2048,  # 1024 chips
        network_bytes_per_s=1.55e9,
        source="cloud.google.com/tpu/docs/v3",
    ),
    _TPU(
        name="tpu_v4",
        flops_per_s=275e12,
        matrix_efficiency=0.76,
        memory_bytes=30.75 * _GIB,  # both cores as one device ("megacore")
        memory_bytes_per_s=1200e9,
        link_bytes_per_s=45e9,  # 6 links
        torus_dims=3,
        node_size=4096,
        network_bytes_per_s=6.25e9,
        source="cloud.google.com/tpu/docs/v4",
    ),
    _TPU(
        name="tpu_v5e",
        flops_per_s=197e12,
        matrix_efficiency=0.89,
        memory_bytes=15.75 * _GIB,
        memory_bytes_per_s=819e9,
        link_bytes_per_s=45e9,  # measured; 50 nominal, 4 links
        wrap_size=16,  # only the full 16 of a pod's side wrap around
        near_bytes=112 * 2**20,  # VMEM of 128 MiB, less what kernels themselves need
        copies_at_end=True,
        node_size=256,
        network_bytes_per_s=3.125e9,  # 6.4 Tbit/s per pod of 256
        source="cloud.google.com/tpu/docs/v5e",
    ),
    _TPU(
        name="tpu_v5p",
        flops_per_s=459e12,
        matrix_efficiency=0.84,
        memory_bytes=95.74 * _GIB,
        memory_bytes_per_s=2765e9,
        link_bytes_per_s=90e9,  # measured; 100 nominal, 6 links
        torus_dims=3,
        node_size=8960,
        network_bytes_per_s=6.25e9,  # 50 Gbit/s per chip
        source="cloud.google.com/tpu/docs/v5p",
    ),
    _TPU(
        name="tpu_v6e",
        flops_per_s=918e12,
        matrix_efficiency=0.66,
        memory_bytes=31.25 * _GIB,
        memory_bytes_per_s=1638e9,
        link_bytes_per_s=90e9,  # measured; 100 nominal, 4 links
        wrap_size=16,
        matrix_tile=(8, 256, 256),
        node_size=256,
        network_bytes_per_s=12.5e9,  # 25.6 Tbit/s per pod of 256
        source="cloud.google.com/tpu/docs/v6e",
    ),
    _TPU(
        name="tpu_v7",
        flops_per_s=1153.5e12,  # a core: half of a chip's 2307
        matrix_efficiency=0.84,
        memory_bytes=94.75 * _GIB,
        memory_bytes_per_s=3690e9,
        copies_at_end=True,
        link_bytes_per_s=50e9,  # 6 links of 100 for two cores
        torus_dims=3,
        matrix_tile=(8, 256, 256),
        node_size=18432,  # 9216 chips
        network_bytes_per_s=6.25e9,  # as v6e's, for two cores: not published
        source="cloud.google.com/tpu/docs/tpu7x",
    ),
    _GPU(
        name="v100",
        flops_per_s=125e12,  # float16: it has no bfloat16
        matrix_efficiency=0.85,
        memory_bytes=32e9,
        memory_bytes_per_s=900e9,
        link_bytes_per_s=150e9,  # NVLink 2: 300 GB/s both ways
        node_size=16,  # DGX-2; 8 in DGX-1
        network_bytes_per_s=12.5e9,  # 100 Gbit/s InfiniBand per GPU
        source="nvidia.com: V100 SXM3 32GB and DGX-2 data sheets",
    ),
    _GPU(
        name="a100_40gb",
        flops_per_s=312e12,
        matrix_efficiency=0.82,
        memory_bytes=40e9,
        memory_bytes_per_s=1555e9,
        link_bytes_per_s=300e9,
        node_size=8,
        network_bytes_per_s=25e9,
        source="nvidia.com: A100 40GB SXM data sheet",
    ),
    _GPU(
        name="a100",
        flops_per_s=312e12,
        matrix_efficiency=0.82,
        memory_bytes=80e9,
        memory_bytes_per_s=2039e9,
        link_bytes_per_s=300e9,  # NVLink 3: 600 GB/s both ways
        node_size=8,
        network_bytes_per_s=25e9,  # 200 Gbit/s InfiniBand per GPU
        source="nvidia.com: A100 80GB SXM data sheet",
    ),
    _GPU(
        name="h100",
        flops_per_s=989e12,
        matrix_efficiency=0.65,
        memory_bytes=80e9,
        memory_bytes_per_s=3350e9,
        link_bytes_per_s=400e9,  # effective; 450 nominal
        node_size=8,
        network_bytes_per_s=50e9,  # 400 Gbit/s InfiniBand per GPU
        product_bytes=32 * 2**20,
        source="nvidia.com: H100 SXM data sheet",
    ),
    _GPU(
        name="h200",
        flops_per_s=989e12,
        matrix_efficiency=0.65,
        memory_bytes=141e9,
        memory_bytes_per_s=4800e9,
        link_bytes_per_s=400e9,  # effective, as H100; 450 nominal
        node_size=8,
        network_bytes_per_s=50e9,
        product_bytes=32 * 2**20,
        source="nvidia.com: H200 SXM data sheet",
    ),
    _GPU(
        name="b200",
        flops_per_s=2250e12,
        memory_bytes=192e9,
        memory_bytes_per_s=8000e9,
        link_bytes_per_s=900e9,  # NVLink 5; NVL72 has node_size=72
        node_size=8,
        network_bytes_per_s=50e9,
        product_bytes=32 * 2**20,
        source="nvidia.com: DGX B200 data sheet",
    ),
    _GPU(
        name="mi300x",
        flops_per_s=1307e12,
        memory_bytes=192e9,
        memory_bytes_per_s=5300e9,
        link_bytes_per_s=448e9,  # 7 links of 64 GB/s to the other 7
        node_size=8,
        network_bytes_per_s=50e9,
        source="amd.com: MI300X data sheet",
    ),
    # A guess at a virtual device of a small machine, for trying things out; `partir
    # calibrate` measures the real one.
    DeviceSpec(
        name="cpu",
        flops_per_s=2e10,
        memory_bytes=4e9,
        memory_bytes_per_s=2e9,
        link_bytes_per_s=1.5e9,
        topology="shared",
        hop_seconds=0.0,
        matrix_efficiency=1.0,
        vector_flops_per_s=7e9,
        kernel_seconds=5e-6,
        collective_seconds=1e-4,
        step_seconds=1e-4,
        overlap=False,
        combine_bytes=1e18,
        copies_operands=True,
        fusion=XLA_CPU,
        export=export_policy.XLA_CPU,
        keeps_barriers=False,
        source="a guess: run `partir calibrate`",
    ),
)

devices = Devices({spec.name: spec for spec in _SPECS})
"""Specs by name."""
