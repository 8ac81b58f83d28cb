"""partir: partition JAX programs over device meshes with a schedule of tactics.

The model stays as it is; a schedule of tactics beside it says how it is split, step by
step. After each tactic `Partitioned` shows which collectives appear.
"""

# isort: off
import partir.jax_window as _window  # noqa: F401  (first: refuses other versions of jax)

# isort: on
import partir.rules as _rules  # noqa: F401  (registers every rule)
from partir.api.diff import diff as diff
from partir.api.jit import (
    jit as jit,
    partition as partition,
    trace as trace,
    trace_for as trace_for,
)
from partir.api.partitioned import Partitioned as Partitioned
from partir.api.suggest import suggest as suggest
from partir.errors import (
    NotProvedWarning as NotProvedWarning,
    PartirError as PartirError,
    PartitionError as PartitionError,
    VerificationError as VerificationError,
)
from partir.frontend.load import load as load
from partir.frontend.opaque import opaque as opaque
from partir.frontend.pipelined import pipelined as pipelined
from partir.frontend.tag import tag as tag
from partir.ir.core import Program as Program
from partir.mesh import Mesh as Mesh
from partir.partition.actions import Partition as Partition
from partir.partition.patterns import optional as optional
from partir.rules.user import rule as rule
from partir.search.methods import search_method as search_method
from partir.simulate.device.catalogue import devices as devices
from partir.simulate.device.fusion_policy import FusionPolicy as FusionPolicy
from partir.simulate.device.spec import DeviceSpec as DeviceSpec
from partir.simulate.estimate import Estimate as Estimate
from partir.spmd.export_policy import ExportPolicy as ExportPolicy
from partir.tactics.automatic import AutomaticPartition as AutomaticPartition
from partir.tactics.choose import Choose as Choose
from partir.tactics.gathered import Gathered as Gathered
from partir.tactics.manual import (
    FIRST_DIVISIBLE_DIM as FIRST_DIVISIBLE_DIM,
    REPLICATED as REPLICATED,
    UNKNOWN as UNKNOWN,
    ManualPartition as ManualPartition,
    padded as padded,
)
from partir.tactics.recorded import load_schedule as load_schedule
from partir.tactics.schedule import Schedule as Schedule, Tactic as Tactic

__version__ = "0.1.0"

__all__ = [
    "FIRST_DIVISIBLE_DIM",
    "REPLICATED",
    "UNKNOWN",
    "AutomaticPartition",
    "Choose",
    "DeviceSpec",
    "Estimate",
    "ExportPolicy",
    "FusionPolicy",
    "Gathered",
    "ManualPartition",
    "Mesh",
    "NotProvedWarning",
    "PartirError",
    "Partition",
    "PartitionError",
    "Partitioned",
    "Program",
    "Schedule",
    "Tactic",
    "VerificationError",
    "devices",
    "diff",
    "jit",
    "load",
    "load_schedule",
    "opaque",
    "optional",
    "padded",
    "partition",
    "pipelined",
    "rule",
    "search_method",
    "suggest",
    "tag",
    "trace",
    "trace_for",
]
