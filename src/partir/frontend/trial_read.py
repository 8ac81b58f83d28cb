"""Reading bytecode in another process first: MLIR's reader may end on corrupt bytes."""

from __future__ import annotations

import subprocess
import sys

from partir.errors import PartitionError

_SECONDS = 60
# Without jax, whose import would take longer than everything else here.
_READ = """
import sys
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
data = sys.stdin.buffer.read()
context = ir.Context()
stablehlo.register_dialect(context)
context.allow_unregistered_dialects = True
context.emit_error_diagnostics = True
context.attach_diagnostic_handler(lambda diagnostic: True)
if b"StableHLO_v" in data[:64]:
    module = stablehlo.deserialize_portable_artifact(context, data)
else:
    module = ir.Module.parse(data, context)
printed = module.operation.get_asm(
    binary=True, enable_debug_info=True, large_elements_limit=16
)
sys.stdout.buffer.write(printed)
"""


def printed_elsewhere(data: bytes) -> bytes:
    """Bytecode as text; refused if a process that reads and prints it ends.

    What it raises there is for this process to find and to say; so is all if no other
    process can be started. There is no text then.
    """
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _READ],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    if ended.returncode < 0:
        raise PartitionError(
            "not a StableHLO module: it is corrupt; MLIR's reader crashes on it"
        )
    return ended.stdout
