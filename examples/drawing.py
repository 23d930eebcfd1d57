"""How the examples' pictures look: light, few lines, the same colours everywhere.

Needs: matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")  # files, no windows
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED, GRAY = "#2563eb", "#ea8a1a", "#15803d", "#b91c1c", "#9ca3af"

plt.rcParams.update(
    {
        "axes.axisbelow": True,
        "axes.edgecolor": GRAY,
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "figure.dpi": 100,
        "figure.facecolor": "white",
        "figure.titlesize": 13,
        "font.size": 10,
        "grid.color": "#e5e7eb",
        "legend.frameon": False,
    }
)


def figure(title: str, columns: int = 2, **options: Any) -> tuple[Figure, Any]:  # noqa: ANN401
    """Begin a picture of several parts side by side; returns it and its axes."""
    options = {"figsize": (9, 3.6), "layout": "constrained"} | options
    drawn, axes = plt.subplots(1, columns, **options)
    drawn.suptitle(title, x=0.01, ha="left")
    return drawn, axes


def save(drawn: Figure, path: Path) -> None:
    """Write the picture and say where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path)
    plt.close(drawn)
    print(f"picture: {path}")
