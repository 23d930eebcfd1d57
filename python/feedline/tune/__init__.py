"""Good settings of a loader: ``feedline tune SOURCE`` or ``feedline tune script.py:function``.

A few settings are measured; what the work costs then goes into `feedline.model`, which says which
others can be worth measuring. docs/tuning.md tells how to use it.
"""

from feedline.tune.search import Tuned, tune
from feedline.tune.settings import Setting
from feedline.tune.targets import Target, TargetError, opened
from feedline.tune.trials import Trial, measured

__all__ = ["Setting", "Target", "TargetError", "Trial", "Tuned", "measured", "opened", "tune"]
