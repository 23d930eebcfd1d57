"""`feedline.model.cluster`: what trainers get of loader nodes, against a network played through."""

import heapq

import pytest

from feedline import model

PLAN = {"cost": 0.01, "cores": 4, "batch_size": 32, "sample_bytes": 100_000}


def played(trainers, loaders, *, cost, cores, step, batch_size, sample_bytes, network, orders):
    """Pass batches through every part, first come first served; return samples per second."""
    size = batch_size * sample_bytes

    def free(count):
        return [0.0] * count

    makers, out, desk = free(loaders * cores), free(loaders), 0.0
    ahead = 4 * loaders * cores // trainers + 4
    begun = [[0.0] * ahead for _ in range(trainers)]  # when trainers began their last batches
    link, trained = free(trainers), free(trainers)
    upcoming = [(0.0, trainer) for trainer in range(trainers)]
    done, batches = 0.0, 600 * trainers
    for number in range(batches):
        wanted, trainer = heapq.heappop(upcoming)
        desk = max(desk, wanted) + 1 / orders
        maker = min(range(len(makers)), key=makers.__getitem__)
        makers[maker] = max(makers[maker], desk) + cost * batch_size
        node = number % loaders
        out[node] = max(out[node], makers[maker]) + size / network
        link[trainer] = max(link[trainer], out[node]) + size / network
        trained[trainer] = max(trained[trainer], link[trainer]) + step
        done = max(done, trained[trainer])
        begun[trainer].append(trained[trainer])
        # So many batches of a trainer may be under way.
        heapq.heappush(upcoming, (begun[trainer][-ahead], trainer))
    return batches * batch_size / done


@pytest.mark.parametrize(
    ("trainers", "loaders", "changes", "bound_by"),
    [
        (4, 3, {"step": 2.0, "network": 1e9, "orders": 1e4}, "training"),
        (4, 3, {"step": 0.01, "network": 1e9, "orders": 1e4}, "the loaders' cores"),
        (2, 8, {"step": 0.01, "network": 2e7, "orders": 1e4}, "the trainers' links"),
        (8, 2, {"step": 0.01, "network": 2e7, "orders": 1e4}, "the loaders' links, out"),
        (4, 3, {"step": 0.01, "network": 1e9, "orders": 10.0}, "orders"),
    ],
)
def test_it_is_as_fast_as_its_narrowest_part(trainers, loaders, changes, bound_by):
    found = model.cluster(trainers, loaders, **PLAN, **changes)
    assert found.bound_by == bound_by
    assert found.throughput == pytest.approx(played(trainers, loaders, **PLAN, **changes), rel=0.05)
    assert found.throughput == found.limits[bound_by] == min(found.limits.values())
    assert found.waiting_share == pytest.approx(1 - found.throughput / found.limits["training"])


def test_files_take_the_other_way_of_the_links_and_the_storage():
    plan = PLAN | {"step": 0.01, "network": 1e9, "read_bytes": 1e7}
    found = model.cluster(4, 3, **plan, storage=2e8)
    assert found.limits["the loaders' links, in"] == pytest.approx(3 * 100)
    assert (found.bound_by, found.throughput) == ("storage", pytest.approx(20))


def test_enough_loaders_are_just_enough():
    plan = PLAN | {"step": 0.02, "network": 1e9}
    enough = model.cluster(4, 1, **plan).enough_loaders
    assert model.cluster(4, enough, **plan).bound_by == "training"
    assert model.cluster(4, enough - 1, **plan).bound_by == "the loaders' cores"


@pytest.mark.parametrize("name", ["trainers", "loaders", "cores", "cost", "step", "network"])
def test_what_cannot_be_is_refused_by_name(name):
    settings = {"trainers": 1, "loaders": 1, "step": 1.0, "network": 1.0} | PLAN
    with pytest.raises(ValueError, match=f"{name} is 0; pass a number above 0"):
        model.cluster(**(settings | {name: 0}))
