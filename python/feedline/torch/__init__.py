"""feedline for PyTorch: the drop-in for its DataLoader, and batches on a device.

>>> from feedline.torch import DataLoader  # instead of torch.utils.data's
>>> loader = DataLoader(range(10), batch_size=4)
>>> [batch.tolist() for batch in loader]
[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
"""

from feedline.torch.dataloader import DataLoader
from feedline.torch.device import OnDevice, to_device
from feedline.torch.installation import install, installed, uninstall
from feedline.torch.iterators.manner import collate_anywhere

__all__ = [
    "DataLoader",
    "OnDevice",
    "collate_anywhere",
    "install",
    "installed",
    "to_device",
    "uninstall",
]
