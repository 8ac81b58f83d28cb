"""`Run`: a row of the table, as a decoder, a mesh and a schedule."""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import partir
from benchmarks.published_runs.decoder import Config, example_args, step_for

TABLE = Path(__file__).with_name("runs.csv")

# Rows that don't say what ran, named before anything was fitted.
EXCLUDED = {
    "a3-llama2-7b-8": "batch and remat are not given",
    "a3-llama2-7b-16": "batch and remat are not given",
    "a3-llama2-7b-32": "batch and remat are not given",
    "a3-llama2-7b-64": "batch and remat are not given",
    "partir-t32-tpu": "heads, hidden size and batch are not given",
    "partir-t48-tpu": "heads, hidden size and batch are not given",
    "partir-t32-gpu": "heads, hidden size and batch are not given",
    "nanogpt-124m-8": "batch is not given",
}

# The table's words for what is kept for the backward pass.
_REMAT = (
    ("none", "products and attention"),  # nobody keeps what is cheap to do again
    ("full", "nothing"),
    ("minimal_flash", "products and attention"),
    ("minimal", "products"),
    ("qkv_proj_offloaded", "projections"),
    ("custom: layer input, qkv, out_proj", "projections and output"),
    ("custom: layer input, qkv, context, mlpwo", "projections, attention and last"),
    ("custom: layer input, qkv, context", "projections and attention"),
    ("custom: layer input, kv, mlpwo", "keys, values and last"),
    ("custom: layer input, qkv", "projections"),
    ("layer input offloaded", "nothing"),
    ("selective (per op)", "every other product"),
    ("selective", "products and attention"),
    ("see", "nothing"),  # not given
)
UNALIGNED_RATE = 0.2  # of products that nobody pads; fitted
HOST_SECONDS = 43e-6  # that PyTorch takes for one of our kernels; fitted
# What several kernels want is kept, as nobody decides otherwise.
EAGER = partir.FusionPolicy(name="eager", in_place=True, unrolled_trips=8)
_PARTS = (("seqsel-175B", 3),)  # of a stage, interleaved (arXiv:2205.05198)
_CHIPS = {"tpu_v7": 2}  # JAX devices in what the table calls a device


@dataclass(frozen=True, eq=False)
class Run:
    """One published run."""

    row: Mapping[str, str]

    @property
    def id(self) -> str:
        """Its name."""
        return self.row["id"]

    @property
    def is_fitted(self) -> bool:
        """Whether constants may be fitted by it: half of the rows, by a hash."""
        return int(hashlib.sha256(self.id.encode()).hexdigest(), 16) % 2 == 0

    @property
    def device(self) -> str:
        """Name of the device's spec."""
        return self.row["hardware"].split()[0]

    @property
    def spec(self) -> partir.DeviceSpec:
        """The device as this run had it."""
        spec = partir.devices[self.device]
        export = replace(spec.export, ties_in_loops=False, ties_large=False)
        spec = replace(spec, export=export)  # others wrote these: no gather waits
        if self.is_eager:
            spec = replace(
                spec,
                host_seconds=HOST_SECONDS,
                aligned_bytes=16,  # as tensor cores want it
                unaligned_rate=UNALIGNED_RATE,
                fusion=EAGER,
                order="program",
            )
        if "500W" in self.row["hardware"]:  # of 700, and another memory
            rate, memory = spec.flops_per_s * 500 / 700, 2.4e12
            return replace(spec, flops_per_s=rate, memory_bytes_per_s=memory)
        return spec

    @property
    def is_eager(self) -> bool:
        """Whether the host starts each kernel by itself: PyTorch, not compiled."""
        row = self.row
        compiled = "compile" in row["notes"] or row["framework"] == "PAX"
        return not compiled and "MaxText" not in row["framework"]

    @property
    def seconds(self) -> float:
        """What a step took."""
        return float(self.row["step_s"])

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Devices along each axis, stages of a pipeline, microbatches."""
        row = self.row
        model, stages = _number(row["tp"], 1), _number(row["pp"], 1)
        per_chip = _CHIPS.get(self.device, 1)
        data = _number(row["dp"], 0) or int(row["devices"]) // (model * stages)
        data *= per_chip
        within = row["zero"].partition("within slice of ")[2].rstrip(")")
        inside = int(within) if within else data
        batch = math.gcd(int(row["global_batch"]), data)  # the rest splits sequences
        return {
            "slice": data // inside,
            "data": inside * batch // data,
            "context": data // batch,
            "model": model,
            "stages": stages,
            "microbatches": self._microbatches(data, stages),
        }

    def _microbatches(self, data: int, stages: int) -> int:
        """As given; if that is not known one, or for a pipeline a sequence each."""
        given = _number(self.row["accum"], 0)
        return given or (int(self.row["global_batch"]) // data if stages > 1 else 1)

    @cached_property
    def config(self) -> Config:
        """The decoder of one stage."""
        row, sizes = self.row, self.sizes
        mixed = "fp32 weights" in row["dtype"] or "mixed" in row["dtype"]
        wide = mixed or "fp32 accumulation" in row["dtype"]
        remat = next(kept for text, kept in _REMAT if row["remat"].startswith(text))
        # Frameworks pad it, but nanotron only so that it can be shared out: these runs'
        # configurations (huggingface/bench_cluster) ask for no more.
        padded = sizes["model"] if row["framework"] == "nanotron" else 128
        vocabulary = int(row["vocab"])
        return Config(
            layers=int(row["layers"]) // sizes["stages"],
            width=int(row["d_model"]),
            heads=int(row["heads"]),
            kv_heads=int(row["kv_heads"]),
            head_dim=int(row["head_dim"]),
            hidden=int(row["d_ff"]),
            gated=row["gated"] == "1",
            tied=row["tied"] == "1",
            vocabulary=math.ceil(vocabulary / padded) * padded,
            sequence=int(row["seq"]),
            batch=int(row["global_batch"]) // sizes["microbatches"],
            microbatches=sizes["microbatches"],
            weights="float32" if wide else "bfloat16",
            activations="bfloat16",
            saved=remat,
            flash=not row["attention"].startswith("unfused"),
            causal="not causal" not in row["attention"],
            dropout="no dropout" not in row["attention"],
            parallel=row["block"] == "parallel",
            one_hot=row["embedding"] == "one-hot",
            activation=row["activation"],
        )

    @property
    def mesh(self) -> partir.Mesh:
        """Devices of one stage."""
        names = ("slice", "data", "context", "model")
        axes = {n: self.sizes[n] for n in names if self.sizes[n] > 1}
        links = {"slice": "network"} if "slice" in axes else {}
        return partir.Mesh(axes or {"data": 1}, links=links)

    def schedule(self) -> list[Any]:
        """Data and tensor parallelism, then what ZeRO shards."""
        sizes, zero = self.sizes, self.row["zero"][:1]
        batch = {"tokens": 1, "labels": 1}
        tactics = [
            partir.ManualPartition(batch, axis=axis, name=f"batch over {axis}")
            for axis in ("slice", "data")
            if sizes[axis] > 1
        ]
        if sizes["context"] > 1:
            rows = {"tokens": 2, "labels": 2}
            tactics.append(partir.ManualPartition(rows, axis="context", name="context"))
        if sizes["model"] > 1:
            tactics.append(_tensor(self.config))
            if self._splits_stream:
                stream = {"stream": 1, "stream/grad": 1}
                tactics.append(partir.ManualPartition(stream, axis="model", name="SP"))
        if sizes["data"] > 1 and zero in "123":
            tactics += _zero(int(zero))
        return tactics

    @property
    def _splits_stream(self) -> bool:
        """Whether what lies between tensor-parallel products is shared out, too."""
        row = self.row
        said = "sequence parallel" in row["remat"] + row["notes"]
        return said or row["framework"] == "MaxText"

    @cached_property
    def partitioned(self) -> partir.Partitioned:
        """The step of one stage on its mesh."""
        return partir.partition(
            step_for(self.config),
            self.mesh,
            self.schedule(),
            args=example_args(self.config),
            donate_argnums=(0, 1, 2),
        )

    @property
    def work(self) -> float:
        """Flops per device that a step needs; nothing is computed again."""
        config, sizes = self.config, self.sizes
        kv, q = config.kv_heads, config.heads
        weights = config.width * config.head_dim * (2 * q + 2 * kv)
        weights += (3 if config.gated else 2) * config.width * config.hidden
        scores = config.sequence * config.head_dim * q
        per_token = config.layers * (weights + scores)
        per_token += config.width * config.vocabulary / sizes["stages"]
        tokens = config.batch * config.sequence * config.microbatches
        devices = math.prod(self.mesh.axes.values())
        return 6.0 * per_token * tokens / devices

    def predicted(self, estimate: Any) -> float:
        """Seconds of a step, with the time in which stages wait."""
        micro = self.sizes["microbatches"]
        parts = next((n for start, n in _PARTS if self.id.startswith(start)), 1)
        waited = (self.sizes["stages"] - 1) / parts
        return float(estimate.seconds) * (micro + waited) / micro


def _tensor(config: Config) -> Any:
    weights = {"params/layers/query": 2, "params/layers/up": 2, "params/embedding": 0}
    if not config.tied:
        weights["params/head"] = 1
    return partir.ManualPartition(weights, axis="model", name="tensor")


def _zero(stage: int) -> list[Any]:
    def matrices(name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        return partir.FIRST_DIVISIBLE_DIM if len(shape) > 1 else partir.UNKNOWN

    sharded = {"first/**": matrices, "second/**": matrices}
    params = {"params/**": matrices if stage == 3 else partir.REPLICATED}
    return [partir.ManualPartition(params | sharded, axis="data", name=f"ZeRO-{stage}")]


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isdigit() else otherwise


def runs() -> list[Run]:
    """All rows that can be predicted."""
    with TABLE.open(newline="") as file:
        return [Run(r) for r in csv.DictReader(file) if r["id"] not in EXCLUDED]
