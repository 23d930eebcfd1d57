"""Draws the pictures of docs/model.md: real runs of a loader beside what the theory says.

python docs/drawings/model.py    takes about a minute; writes docs/drawings/model-*.svg

Samples sleep, so a core is not needed for each worker. What a sample costs is measured with one
worker; every other point is a prediction, and then a run.
"""

import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

import feedline
from feedline import model
from feedline.stats import Stats

Points = list[tuple[float, float]]

HERE = Path(__file__).parent
BATCH, STEP, NAP = 16, 0.040, 0.010
WORKERS = (1, 2, 3, 4, 5, 6, 8, 10, 12)


def naps(count: int, spread: bool) -> np.ndarray:
    """Seconds to sleep, the same in every run."""
    dice = np.random.default_rng(1)
    return dice.exponential(NAP, count) if spread else dice.uniform(0.5 * NAP, 1.5 * NAP, count)


def nap(seconds: np.ndarray) -> np.ndarray:
    """Sleep instead of decoding."""
    time.sleep(float(seconds))
    return seconds


def run(
    workers: int, samples: int, step: float, *, spread: bool = False, policy: str = "steal"
) -> tuple[float, Stats]:
    """Run one epoch of a loop; samples per second, and the loader's statistics."""
    pipeline = feedline.arrays(naps(samples, spread)).map(nap)
    loader = feedline.Loader(
        pipeline, batch_size=BATCH, num_workers=workers, prefetch=4, policy=policy, epochs=1
    )
    began = time.perf_counter()
    for _ in loader:
        time.sleep(step)
    took = time.perf_counter() - began
    stats = loader.stats()
    return samples / took, stats


def predicted(workers: int, cost: float) -> model.Loading:
    """Ask the theory, given what a sample costs."""
    spread = 1 / 12**0.5  # of a uniform distribution from a half to one and a half
    return model.loading(workers, cost=cost, step=STEP, batch_size=BATCH, prefetch=4, spread=spread)


def axis(most: float) -> list[float]:
    """Round numbers from 0 up to a value."""
    step = 10 ** np.floor(np.log10(most))
    step = next(step * it for it in (0.2, 0.5, 1, 2) if most / (step * it) <= 6)
    return [float(tick) for tick in np.arange(0, most * 1.001 + step, step)]


def draw(
    name: str,
    about: str,
    labels: tuple[str, str],
    said: Points,
    seen: Points,
    *,
    percent: bool = False,
) -> None:
    """Write a picture: a line for the theory, dots for the runs."""
    left, right, top, bottom = 64, 508, 34, 222
    ticks = axis(max(y for _, y in said + seen))
    most_x = max(x for x, _ in said + seen)

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (right - left) * x / most_x, bottom - (bottom - top) * y / ticks[-1]

    def text(x: float, y: float, words: str, anchor: str = "middle", ink: str = "faint") -> str:
        colour = {"faint": "#5a6675", "ink": "#1b2430"}[ink]
        return (
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'fill="var(--{ink}, {colour})">{words}</text>'
        )

    rows = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 520 262" role="img" '
        f'aria-label="{about}" font-family="system-ui, sans-serif" font-size="13">',
        "<style>@media (prefers-color-scheme: dark) { svg:root { --ink: #e8ecf2; --faint: #a3afbf; "
        "--line: #7a8797; --blue: #8ab8ff; --orange: #ffb27d; --wait: #333c48; } }</style>",
    ]
    for tick in ticks:
        _, y = at(0, tick)
        label = f"{tick * 100:.0f} %" if percent else f"{tick:g}"
        rows.append(f'<path d="M{left} {y:.1f}H{right}" stroke="var(--wait, #e3e8ee)"/>')
        rows.append(text(left - 8, y + 4, label, "end"))
    across = [tick for tick in axis(most_x) if tick <= most_x]
    rows += [text(at(tick, 0)[0], bottom + 18, f"{tick:g}") for tick in across]
    rows.append(text((left + right) / 2, bottom + 36, labels[0], ink="ink"))
    rows.append(text(left, 18, labels[1], "start", "ink"))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in said))
    rows.append(
        f'<polyline points="{line}" fill="none" stroke="var(--blue, #2563eb)" stroke-width="2.4"/>'
    )
    for point in seen:
        x, y = at(*point)
        rows.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="var(--orange, #e2570b)"/>')
    rows.append('<path d="M330 14h22" stroke="var(--blue, #2563eb)" stroke-width="2.4"/>')
    rows.append(text(358, 18, "theory", "start"))
    rows.append('<circle cx="428" cy="14" r="4.5" fill="var(--orange, #e2570b)"/>')
    rows.append(text(438, 18, "measured", "start"))
    (HERE / f"model-{name}.svg").write_text("\n".join(rows) + "\n</svg>\n")


def main() -> None:
    """Measure and draw."""
    _, alone = run(1, 160, 0.0)
    cost = alone["workers"][0]["busy_ns"] / 1e9 / 160
    rates, busy, waits = [], [], []
    for workers in WORKERS:
        rate, stats = run(workers, 160 + 160 * workers, STEP)
        wall = stats["samples"] / rate
        rates.append((workers, rate))
        busy.append((workers, sum(it["busy_ns"] for it in stats["workers"]) / 1e9 / wall / workers))
        waits.append((workers, stats["consumer"]["wait_ns"] / 1e9 / wall))
        expected = predicted(workers, cost).throughput
        sys.stdout.write(f"{workers} workers: {rate:.0f} samples/s, {expected:.0f} said\n")
    said = [(n, predicted(n, cost)) for n in range(1, WORKERS[-1] + 1)]
    axes = "workers"
    draw(
        "knee",
        "Throughput grows with the workers up to the knee and is flat from there on",
        (axes, "samples per second"),
        [(n, it.throughput) for n, it in said],
        rates,
    )
    draw(
        "utilisation",
        "Workers are busy all the time before the knee, and less and less behind it",
        (axes, "time in which a worker works"),
        [(n, it.utilisation) for n, it in said],
        busy,
        percent=True,
    )
    draw(
        "waiting",
        "The loop waits most of its time with one worker and hardly ever behind the knee",
        (axes, "time in which the loop waits"),
        [(n, it.waiting_share) for n, it in said],
        waits,
        percent=True,
    )
    gains = [(n1, (r2 / r1) ** (1 / (n2 - n1)) - 1) for (n1, r1), (n2, r2) in pairwise(rates)]
    draw(
        "one-more",
        "One more worker brings much before the knee and nothing behind it",
        (axes, "what one more worker brings"),
        [(n, it.one_more) for n, it in said],
        [(n, max(gain, 0.0)) for n, gain in gains],
        percent=True,
    )
    dealt, even = [], []
    for each in (2, 4, 8, 16, 32, 64):
        _, stats = run(8, 8 * each, 0.0, spread=True, policy="round_robin")
        dealt.append((each, stats["imbalance"]))
        even.append((each, model.expected_imbalance(8, each, 1.0)))
    draw(
        "imbalance",
        "Dealt out in advance, few samples are shared unevenly and many evenly",
        ("samples of each of 8 workers", "longest time over the mean"),
        even,
        dealt,
    )


if __name__ == "__main__":
    main()
