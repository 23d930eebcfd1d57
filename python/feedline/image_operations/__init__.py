"""The operations on images, by the names of `torchvision.transforms.v2`.

Each module has those of one kind; `ImageOperations` has all of them.
"""

from feedline.image_operations.augment import Augmenting
from feedline.image_operations.base import MOST_PIXELS, Call
from feedline.image_operations.color import Coloring
from feedline.image_operations.combine import Combining
from feedline.image_operations.crops import Cropping
from feedline.image_operations.finish import Finishing
from feedline.image_operations.geometry import Moving

__all__ = ["MOST_PIXELS", "Call", "ImageOperations"]


class ImageOperations(Cropping, Moving, Coloring, Augmenting, Combining, Finishing):
    """What can be done to images. Each operation returns new `Images`."""
