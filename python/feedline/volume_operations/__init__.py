"""The operations on volumes, with the meaning of MONAI's transforms.

Each module has those of one kind; `VolumeOperations` has all of them.
"""

from feedline.volume_operations.augment import VolumeAugmenting
from feedline.volume_operations.base import VolumeCall
from feedline.volume_operations.crops import VolumeCropping
from feedline.volume_operations.finish import VolumeFinishing
from feedline.volume_operations.geometry import VolumeMoving
from feedline.volume_operations.intensity import VolumeScaling

__all__ = ["VolumeCall", "VolumeOperations"]


class VolumeOperations(
    VolumeCropping, VolumeMoving, VolumeScaling, VolumeAugmenting, VolumeFinishing
):
    """What can be done to volumes. Each operation returns new `Volumes`."""
