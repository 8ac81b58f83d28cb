"""Types of values: ranked tensors, and opaque ones such as tokens."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache, cached_property

_BITS = re.compile(r"\d+")


@dataclass(frozen=True)
class TensorType:
    """Shape and element type, the latter in MLIR's spelling.

    >>> TensorType((2, 3), "f32").text
    'tensor<2x3xf32>'
    """

    shape: tuple[int, ...]
    dtype: str
    tensor: bool = True

    @cached_property
    def text(self) -> str:
        """MLIR's spelling."""
        if not self.tensor:
            return self.dtype
        return f"tensor<{''.join(f'{n}x' for n in self.shape)}{self.dtype}>"

    @property
    def bytes(self) -> int:
        """Size in memory; a boolean takes a byte."""
        return math.ceil(math.prod(self.shape) * dtype_bytes(self.dtype))

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The same element type in another shape."""
        return tensor(shape, self.dtype) if self.tensor else self

    def __str__(self) -> str:
        """Short form for people: ``f32[2,3]``."""
        if not self.tensor:
            return self.dtype
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@cache
def tensor(shape: tuple[int, ...], dtype: str) -> TensorType:
    """A tensor type, shared between equal ones so that comparing is cheap."""
    return TensorType(shape, dtype)


@cache
def opaque_type(text: str) -> TensorType:
    """A type that is not a tensor (a token, say): passed on, never tiled."""
    return TensorType((), text, tensor=False)


@cache
def dtype_bytes(dtype: str) -> float:
    """Bytes of one element.

    >>> dtype_bytes("bf16"), dtype_bytes("i1"), dtype_bytes("complex<f32>")
    (2.0, 1.0, 8.0)
    """
    if dtype.startswith("complex"):
        return 2 * dtype_bytes(dtype[len("complex<") : -1])
    bits = _BITS.search(dtype)
    if bits is None:
        return 0.0
    return max(int(bits.group()), 8 if dtype == "i1" else 1) / 8
