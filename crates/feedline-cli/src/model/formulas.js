"use strict";
// A loader and its training loop, as `Loading` of the crate feedline-model: the same formulas, line by line.
// Times are in seconds. The tests compare both in a browser.
const feedlineModel = (() => {
  // The shares of time in which the room between the two is empty, and full (`Between::ends`).
  const ends = ({ up, down, room }) => {
    const log = Math.log(up / down);
    if (Math.abs(log * room) < 1e-9) return [1 / (room + 1), 1 / (room + 1)];
    const empty = Math.expm1(log) / Math.expm1(log * (room + 1));
    const full = Math.expm1(-log) / Math.expm1(-log * (room + 1));
    return [empty, full];
  };

  const rate = (between) => {
    const [empty, full] = ends(between);
    return between.up < between.down ? between.up * (1 - full) : between.down * (1 - empty);
  };

  // The mean share of the room that is used.
  const level = ({ up, down, room }) => {
    const x = Math.log(up / down) * room;
    if (Math.abs(x) < 1e-6) return 0.5;
    return Math.min(Math.max(1 / (1 - Math.exp(-x)) - 1 / x, 0), 1);
  };

  const throughputOf = (setting) => {
    const { workers, batchSize, prefetch, cost, spread, step } = setting;
    const batchTime = (cost * batchSize) / Math.min(workers, batchSize * prefetch);
    if (step === 0) return { batches: 1 / batchTime, between: null };
    const places = prefetch + 1;
    const between = {
      up: 1 / batchTime,
      down: 1 / step,
      places,
      room: Math.min(places / (spread ** 2 / batchSize / 2), 1e9),
    };
    return { batches: Math.min(between.up, between.down, rate(between)), between };
  };

  const loading = (setting) => {
    const { workers, batchSize, cost, step } = setting;
    const { batches, between } = throughputOf(setting);
    const throughput = batches * batchSize;
    const wait = Math.max(1 / batches - step, 0);
    const more = throughputOf({ ...setting, workers: workers + 1 }).batches;
    return {
      throughput,
      wait,
      waitingShare: wait * batches,
      ready: between ? Math.max(level(between) * between.places - (1 - ends(between)[0]), 0) : 0,
      utilisation: (throughput * cost) / workers,
      knee: step > 0 ? (batchSize * cost) / step : null,
      oneMore: more / batches - 1,
    };
  };

  return { loading };
})();
