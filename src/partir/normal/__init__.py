"""Normal forms: what programs spell in several ops is one op that rules see through.

Right after import, each op that `table.py` lists is looked at once, in program order,
with what makes its operands. Values keep their numbers, and with them their names.
"""
