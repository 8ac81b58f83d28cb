"""Proof that a device-local program computes what its source does.

Imports nothing that partitions: what each op, each collective and each identity means
is stated here once more, and held against the exported module as it was read back.
"""

from partir.verify.promises import Promises as Promises
from partir.verify.proof import (
    NotProved as NotProved,
    Proof as Proof,
    ReadSource as ReadSource,
    compare as compare,
    prove as prove,
)
