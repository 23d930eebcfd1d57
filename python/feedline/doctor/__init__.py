"""What holds a training script up: ``feedline doctor script.py [args]``.

The command runs a part of the script unchanged, with torch's DataLoader watched, and says how long
the loop waits for data, what a perfect loader would bring, what the bottleneck is, in which lines,
and what to change. docs/doctor.md tells how to read it.

`watch` runs a script, `diagnose` says what holds it up.
"""

from feedline.doctor.diagnosis import NAMES, Change, Diagnosis, Hotspot, diagnose
from feedline.doctor.running import Run, ScriptError, watch

__all__ = [
    "NAMES",
    "Change",
    "Diagnosis",
    "Hotspot",
    "Run",
    "ScriptError",
    "diagnose",
    "watch",
]
