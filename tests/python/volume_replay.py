"""What was drawn for a volume, done to it by NumPy and SciPy."""

import numpy as np
from scipy import ndimage


def replayed(image, mask, actions):
    """Return image (channels, z, y, x) and mask after the actions of a patch."""
    image = np.asarray(image, np.float64)
    for name, how in actions:
        if name == "move":
            image, mask = moved(image, mask, how)
        else:
            image = image.copy()
            image[how["channel"]] = CHANGES[name](image[how["channel"]], how)
    return image, mask


def places(how):
    """Return where in the old grid each new voxel is."""
    grid = np.stack(np.meshgrid(*map(np.arange, how["shape"]), indexing="ij"))
    turned = np.tensordot(np.asarray(how["linear"]), grid, axes=1)
    return turned + np.asarray(how["offset"])[:, None, None, None]


def moved(image, mask, how):
    where = places(how)
    # Near the edge there is the edge still, as far as an earlier resampling had it so.
    sides = np.array(image.shape[1:])[:, None, None, None] - 1.0
    margin = np.asarray(how["margin"])[:, None, None, None]
    low, high = np.minimum(where, 0.0), np.maximum(where, sides)
    near = np.clip(where, 0, sides)
    near = near + np.minimum(low + margin, 0) + np.maximum(high - sides - margin, 0)
    if how["fill"] is None:
        options = {"mode": "nearest"}
        fill = (0.0, 0)
    else:
        fill = how["fill"]
        options = {"mode": "grid-constant"}
    made = np.stack(
        [
            ndimage.map_coordinates(channel, near, order=1, cval=fill[0], **options)
            for channel in image
        ]
    )
    if mask is None:
        return made, None
    if how["labels"] == "nearest":
        labels = ndimage.map_coordinates(mask, near, order=0, cval=fill[1], **options)
        return made, labels
    return made, most_weight(mask, near, fill[1], options)


def most_weight(mask, where, fill, options):
    """Return the label with the most weight: each interpolated as a channel of its own."""
    labels = np.unique([*np.unique(mask), fill])
    weights = [
        ndimage.map_coordinates(
            (mask == label).astype(np.float64), where, order=1, cval=float(label == fill), **options
        )
        for label in labels
    ]
    return labels[np.argmax(weights, axis=0)]


def scale(x, how):
    x = x * how["factor"] + how["offset"]
    return x if how["clip"] is None else np.clip(x, *how["clip"])


def zscore(x, how):
    chosen = x != 0 if how["nonzero"] else np.ones(x.shape, bool)
    x = x.copy()
    if chosen.any():
        x[chosen] = (x[chosen] - x[chosen].mean()) / (x[chosen].std() or 1.0)
    return x


def percentiles(x, how):
    low, high = np.percentile(x, (how["lower"], how["upper"]))
    a, b = how["to"]
    x = (x - low) * ((b - a) / ((high - low) or (b - a))) + a
    return np.clip(x, min(a, b), max(a, b)) if how["clip"] else x


def blur(x, how):
    mode = {"zero": "constant", "reflect": "mirror"}[how["border"]]
    for axis, kernel in enumerate(how["kernels"]):
        if len(kernel) > 1:
            x = ndimage.correlate1d(x, np.asarray(kernel, np.float64), axis, mode=mode)
    return x


def contrast(x, how):
    changed = (x - x.mean()) * how["factor"] + x.mean()
    return np.clip(changed, x.min(), x.max()) if how["preserve_range"] else changed


def gamma(x, how):
    sign = -1 if how["invert"] else 1
    x = x * sign
    low, span = x.min(), x.max() - x.min()
    made = ((x - low) / max(span, 1e-7)) ** how["gamma"] * span + low
    if how["retain_stats"]:
        made = (made - made.mean()) * (x.std() / max(made.std(), 1e-7)) + x.mean()
    return made * sign


def low_resolution(x, how):
    import torch
    from torch.nn.functional import interpolate

    tensor = torch.from_numpy(x)[None, None]
    mode = "nearest-exact" if how["exact"] else "nearest"
    small = interpolate(tensor, tuple(how["shape"]), mode=mode)
    return interpolate(small, x.shape, mode="trilinear")[0, 0].numpy()


CHANGES = {
    "scale": scale,
    "zscore": zscore,
    "percentiles": percentiles,
    "blur": blur,
    "contrast": contrast,
    "gamma": gamma,
    "low_resolution": low_resolution,
}
