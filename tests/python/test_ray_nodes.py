"""`feedline.ray` on a local cluster of several nodes, one of which is killed."""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

from patience import PATIENCE

SCRIPT = """
    import time

    import numpy as np
    import ray
    from ray.cluster_utils import Cluster

    import feedline
    import feedline.ray


    def slow(x):
        time.sleep(0.002)
        return x


    if __name__ == "__main__":
        store = {"object_store_memory": 100_000_000}
        head = {"num_cpus": 0, "include_dashboard": False, **store}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        nodes = [cluster.add_node(num_cpus=1, **store) for _ in range(2)]
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        numbers = feedline.arrays(np.arange(3003))
        settings = {"batch_size": 16, "shuffle": True, "seed": 3}
        loader = feedline.ray.Loader(numbers.map(slow), num_loaders=2, **settings)
        got = []
        for (batch,) in loader:
            got.append(batch)
            if len(got) == 60:
                # One may have made all of these before the other has started.
                while sum(actor["state"] == "ready" for actor in loader.stats()["actors"]) < 2:
                    time.sleep(0.05)
                cluster.remove_node(nodes[0], allow_graceful=False)
        expected = [batch for (batch,) in feedline.Loader(numbers, **settings)]
        assert len(got) == len(expected)
        assert all(np.array_equal(a, b) for a, b in zip(got, expected))
        loader.close()
        ray.shutdown()
        cluster.shutdown()
        print("each once")
"""


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE + 60)
def test_a_node_may_be_killed_and_every_sample_comes_once(tmp_path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    script = tmp_path / "nodes.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"RAY_AUTH_MODE": "disabled"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "each once" in done.stdout, done.stdout + done.stderr
