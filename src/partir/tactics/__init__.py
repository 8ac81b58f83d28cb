"""Tactics: what a schedule is made of."""
