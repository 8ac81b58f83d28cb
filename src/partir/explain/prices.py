"""What collectives cost: bytes, seconds, share of the step."""

from __future__ import annotations

from partir.explain.answer import Price
from partir.explain.evidence import Evidence


def price_of(record: Evidence, name: str) -> Price:
    """The price of a collective by its name."""
    op, trips = record.collectives[name]
    took = record.collective_seconds.get(op.result, 0.0)
    whole = record.estimate.seconds
    share = took / whole if whole else 0.0
    return Price(trips * record.spmd.bytes_sent(op), took, share, trips)
