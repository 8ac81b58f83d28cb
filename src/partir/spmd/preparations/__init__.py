"""The program as one compiler wants it; `prepare.py` lists what is done."""
