"""The theory of loading as functions: queues, lines of stages, scaling laws, memory, a simulator.

Rates are per second, times in seconds, sizes in bytes. Each function refuses what cannot be with a
`ValueError` that says which number and why. `docs/model.md` tells what the figures mean beside real
runs; `feedline model` asks the same questions on the command line.

>>> from feedline import model
>>> queue = model.mmc(arrival=8, service=1, servers=10)
>>> round(queue.probability_of_waiting, 3)
0.409
>>> model.loading(workers=4, cost=0.010, step=0.080).throughput
400.0
"""

from feedline.model.calibration import (
    Accuracy,
    Calibration,
    Elsewhere,
    Observation,
    Prediction,
    calibrate,
    lock_share,
    observe,
    predict,
)
from feedline.model.clusters import Cluster, cluster
from feedline.model.lines import (
    Imbalance,
    Loading,
    Stage,
    Tandem,
    expected_imbalance,
    imbalance,
    loading,
    tandem,
)
from feedline.model.moving import (
    Bandwidth,
    Pinning,
    Transfer,
    bandwidth,
    batch_memory,
    largest_batch,
    pinning,
    process_memory,
    transfer,
)
from feedline.model.queues import (
    Cheapest,
    Little,
    Queue,
    cheapest_workers,
    little,
    mg1,
    mgc,
    mm1,
    mmc,
)
from feedline.model.scaling import Usl, UslFit, amdahl, fit_usl, gustafson, usl
from feedline.model.simulation import Simulated, SimulatedRank, SimulatedStage, simulate

__all__ = [
    "Accuracy",
    "Bandwidth",
    "Calibration",
    "Cheapest",
    "Cluster",
    "Elsewhere",
    "Imbalance",
    "Little",
    "Loading",
    "Observation",
    "Pinning",
    "Prediction",
    "Queue",
    "Simulated",
    "SimulatedRank",
    "SimulatedStage",
    "Stage",
    "Tandem",
    "Transfer",
    "Usl",
    "UslFit",
    "amdahl",
    "bandwidth",
    "batch_memory",
    "calibrate",
    "cheapest_workers",
    "cluster",
    "expected_imbalance",
    "fit_usl",
    "gustafson",
    "imbalance",
    "largest_batch",
    "little",
    "loading",
    "lock_share",
    "mg1",
    "mgc",
    "mm1",
    "mmc",
    "observe",
    "pinning",
    "predict",
    "process_memory",
    "simulate",
    "tandem",
    "transfer",
    "usl",
]
