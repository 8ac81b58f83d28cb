"""Chains of ops, right and wrong, which the verifier is asked about.

A chain is drawn by its seed and written twice: as a program, and as what each of two
devices does, with the collective at the same place of the chain or at another, and the
chain sometimes changed. What numpy computes says whether the two agree. A pair that is
wrong but proved is a hole in the verifier; one that is right but disproved is a false
alarm.
"""

from partir.fuzz.chains.judge import Verdict as Verdict, tried as tried
from partir.fuzz.chains.modes import MODES as MODES
