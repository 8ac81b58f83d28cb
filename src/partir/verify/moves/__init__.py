"""Ops that put rows elsewhere: slices, pads, concatenations, windows."""
