"""Random programs, meshes and schedules, held against the program on one device.

A program is drawn by its seed and tried under a few schedules. The source, the program
as it was read, Core's sequential meaning, the device-local module in lockstep and, for
some, the same module on virtual devices must agree; what does not is shrunk and printed
as a test.
"""

from partir.fuzz.campaign import Found as Found, Report as Report, run as run
from partir.fuzz.case import Failure as Failure
from partir.fuzz.case_source import retry as retry, written as written
