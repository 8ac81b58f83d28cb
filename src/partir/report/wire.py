"""Protocol buffers on the wire: the little of them that traces need."""

from __future__ import annotations

import struct
from collections.abc import Iterable


def varint(number: int) -> bytes:
    """A whole number, seven bits at a time, the lowest first.

    >>> varint(300).hex()
    'ac02'
    """
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def number(field: int, value: int) -> bytes:
    """A whole number or an enumeration; zero is left out."""
    return varint(field << 3) + varint(value) if value else b""


def fraction(field: int, value: float) -> bytes:
    """A double."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def embedded(field: int, data: bytes) -> bytes:
    """A message, a text or bytes."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    """A text."""
    return embedded(field, value.encode())


def packed(field: int, values: Iterable[int]) -> bytes:
    """Repeated whole numbers in one piece."""
    data = b"".join(map(varint, values))
    return embedded(field, data) if data else b""


def delimited(message: bytes) -> bytes:
    """A message after its length."""
    return varint(len(message)) + message
