"""Types of values: ranked tensors, and opaque ones such as tokens."""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from typing import Any, ClassVar

from partir.ir.interning import Interned

_BITS = re.compile(r"\d+")


class TensorType:
    """Shape and element type, the latter in MLIR's spelling.

    Interned: equal types are one object, so that comparing and hashing are cheap.

    >>> TensorType((2, 3), "f32").text
    'tensor<2x3xf32>'
    >>> TensorType((2, 3), "f32") is TensorType((2, 3), "f32")
    True
    """

    __slots__ = ("__weakref__", "bytes", "dtype", "shape", "tensor", "text")
    _known: ClassVar[Interned[TensorType]] = Interned(recent=1 << 10)

    shape: tuple[int, ...]
    dtype: str
    tensor: bool
    text: str  # MLIR's spelling
    bytes: int  # in memory; a boolean takes a byte

    def __new__(
        cls, shape: tuple[int, ...], dtype: str, tensor: bool = True
    ) -> TensorType:
        """The one object for these."""
        key = (shape, dtype, tensor)
        found = cls._known.get(key)
        if found is None:
            made = super().__new__(cls)
            made.shape, made.dtype, made.tensor = key
            sizes = "".join(f"{n}x" for n in shape)
            made.text = f"tensor<{sizes}{dtype}>" if tensor else dtype
            made.bytes = math.ceil(math.prod(shape) * dtype_bytes(dtype))
            found = cls._known.add(key, made)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by content, so that the copy is interned where it arrives."""
        return TensorType, (self.shape, self.dtype, self.tensor)

    def __repr__(self) -> str:
        """As MLIR spells it."""
        return self.text

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The same element type in another shape."""
        return tensor(shape, self.dtype) if self.tensor else self

    def __str__(self) -> str:
        """Short form for people: ``f32[2,3]``."""
        if not self.tensor:
            return self.dtype
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@lru_cache(maxsize=1 << 12)
def tensor(shape: tuple[int, ...], dtype: str) -> TensorType:
    """A tensor type, shared between equal ones so that comparing is cheap."""
    return TensorType(shape, dtype)


@lru_cache(maxsize=1 << 10)
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


def numpy_name(dtype: str) -> str:
    """MLIR's name of an element type as numpy and jax spell it.

    >>> [numpy_name(dtype) for dtype in ("f32", "bf16", "ui8", "i1", "complex<f32>")]
    ['float32', 'bfloat16', 'uint8', 'bool', 'complex64']
    """
    known = {"i1": "bool", "complex<f32>": "complex64", "complex<f64>": "complex128"}
    if dtype in known:
        return known[dtype]
    if small := re.fullmatch(r"f(\d+)(E.*)", dtype):  # f8E4M3FN
        return f"float{small[1]}_{small[2].lower()}"
    kinds = {"f": "float", "bf": "bfloat", "i": "int", "ui": "uint"}
    plain = re.fullmatch(r"(bf|f|ui|i)(\d+)", dtype)
    return f"{kinds[plain[1]]}{plain[2]}" if plain else dtype
