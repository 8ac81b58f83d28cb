"""Layouts: on which device, and at which place, each element of a class is."""
