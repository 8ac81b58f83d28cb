"""MLIR's names of element types in numpy's and jax's terms."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np

from partir.errors import PartitionError
from partir.ir.types import TensorType

_NAMES = {
    "i1": np.bool_,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}
_NAMES |= {f"i{n}": np.dtype(f"int{n}").type for n in (8, 16, 32, 64)}
_NAMES |= {f"ui{n}": np.dtype(f"uint{n}").type for n in (8, 16, 32, 64)}
_NAMES |= {
    text: getattr(ml_dtypes, name)
    for text, name in {
        "f8E4M3FN": "float8_e4m3fn",
        "f8E5M2": "float8_e5m2",
        "f8E4M3": "float8_e4m3",
        "f8E3M4": "float8_e3m4",
        "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
        "f8E4M3FNUZ": "float8_e4m3fnuz",
        "f8E5M2FNUZ": "float8_e5m2fnuz",
        "f8E8M0FNU": "float8_e8m0fnu",
        "f4E2M1FN": "float4_e2m1fn",
        "f6E2M3FN": "float6_e2m3fn",
        "f6E3M2FN": "float6_e3m2fn",
        "i4": "int4",
        "ui4": "uint4",
        "i2": "int2",
        "ui2": "uint2",
    }.items()
}


def jax_struct(type_: TensorType) -> jax.ShapeDtypeStruct:
    """Shape and dtype for jax."""
    dtype = _NAMES.get(type_.dtype)
    if dtype is None:
        raise PartitionError(f"values of type {type_} can't be passed through jax")
    return jax.ShapeDtypeStruct(type_.shape, dtype)
