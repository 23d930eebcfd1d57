//! What the rooms have counted, put together.

use std::sync::atomic::Ordering;

use crate::measure::tally::StageTally;
use crate::measure::{ConsumerStats, PaddedStats, StageStats, Stats, Times, WorkerStats, stats};
use crate::sync::lock_std as lock;
use crate::work::Stage;

use super::Loader;

impl Loader {
    /// Everything that was measured so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let engine = &self.engine;
        let runner = &engine.runner;
        let hired = engine.hired() + engine.io_workers;
        let hired = hired.clamp(1, runner.tallies.len());
        let tallies = runner.tallies[..hired].iter().map(|tally| (tally, tally.stages()));
        let mut totals = [const { None }; 3];
        let mut workers = Vec::with_capacity(hired);
        for (worker, (tally, stages)) in tallies.enumerate() {
            workers.push(WorkerStats {
                worker,
                samples: tally.samples.load(Ordering::Relaxed),
                jobs: tally.jobs.load(Ordering::Relaxed),
                busy_ns: tally.busy_ns.load(Ordering::Relaxed),
                idle_for_consumer_ns: tally.idle_for_consumer_ns.load(Ordering::Relaxed),
                idle_without_work_ns: tally.idle_without_work_ns.load(Ordering::Relaxed),
                stages: Stage::ALL.into_iter().zip(&stages).map(stage_stats).collect(),
            });
            for (total, stage) in totals.iter_mut().zip(stages) {
                match total {
                    None => *total = Some(stage),
                    Some(total) => {
                        total.bytes += stage.bytes;
                        total.total_ns += stage.total_ns;
                        let _ = total.times.add(&stage.times);
                    }
                }
            }
        }
        let (imbalance, efficiency) = stats::balance(workers.iter().map(|w| w.busy_ns));
        let (memory, prefetch, ready) =
            engine.gate.look(|flow| (flow.memory(), flow.read_ahead(), flow.ready()));
        let now_ns = engine.gate.now_ns();
        let mut consumed = lock(&engine.consumption);
        consumed.fold();
        Stats {
            elapsed_ns: consumed.begun_ns.map_or(0, |begun| now_ns.saturating_sub(begun)),
            batches: consumed.batches,
            samples: consumed.samples,
            bytes: consumed.bytes,
            errors: runner.maker.journal.count(),
            lost_workers: runner.maker.watchlist.lost.load(Ordering::Relaxed),
            consumer: ConsumerStats {
                step_ns: consumed.step_ns,
                wait_ns: consumed.wait_ns,
                handover_ns: consumed.handover_ns,
                waits: Times::from(&consumed.waits),
            },
            stages: Stage::ALL.into_iter().zip(totals.iter().flatten()).map(stage_stats).collect(),
            workers,
            batch_parts: consumed.parts,
            recent_batches: consumed.recent.clone(),
            occupancy: consumed.occupancy.points().to_vec(),
            imbalance,
            efficiency,
            steals: engine.policy.steals(),
            memory,
            padded: {
                let [values, places] = runner.maker.pool.padded();
                PaddedStats { values, places }
            },
            prefetch,
            ready,
            control: engine.control.as_ref().map(|control| lock(&control.controller).stats()),
            is_iterated: runner.maker.dataset.iterable().is_some(),
        }
    }
}

fn stage_stats((stage, tally): (Stage, &StageTally)) -> StageStats {
    StageStats {
        stage,
        bytes: tally.bytes,
        total_ns: tally.total_ns,
        times: Times::from(&tally.times),
    }
}
