"""Decisions per mesh axis, the actions that make them, and propagation."""
