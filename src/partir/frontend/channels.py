"""Channels of collectives, all read as one.

They only tell collectives apart, and get other numbers where a module becomes part of
another. Read as one, equal collectives are equal. Zero is none: it stays.
"""

from __future__ import annotations

import re

CHANNEL = "channel_handle"
_NUMBER = re.compile(r"(#stablehlo\.channel_handle<handle = )[1-9]\d*")


def one_channel(text: str) -> str:
    """A text in which every channel is the first."""
    return _NUMBER.sub(r"\g<1>1", text) if CHANNEL in text else text
