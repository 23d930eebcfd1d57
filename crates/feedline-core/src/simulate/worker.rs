//! The workers: they take jobs or open batches, and work on samples stage by stage.

use crate::deliver::Delivery;
use crate::flow::{BatchId, Finished, Opening};
use crate::schedule::Job;

use super::clock::{Event, seconds};
use super::cost::key;
use super::rank::{Open, batch_range};
use super::run::{Neighbours, Run};
use super::{Assignment, StageCost};

/// What a worker does to a sample.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Portion {
    /// All stages.
    All,
    /// The first stage alone; others do the rest.
    Load,
    /// All but the first stage.
    Build,
}

/// What a worker is at.
pub(super) struct Worker {
    pub(super) rank: usize,
    /// Its number within its rank.
    pub(super) number: usize,
    pub(super) portion: Portion,
    pub(super) job: Option<Job<Neighbours>>,
    /// Which sample of the job, and which of its stages.
    pub(super) at: (u64, usize),
    /// Batches that it collates after its job.
    pub(super) collating: Vec<Open>,
    /// Which resource it uses now.
    pub(super) uses: Option<u32>,
    pub(super) began_ns: u64,
    pub(super) job_began_ns: u64,
    pub(super) busy_ns: u64,
    /// Raised by death.
    pub(super) life: u32,
    pub(super) alive: bool,
    pub(super) slowness: f64,
    pub(super) sleeping: bool,
}

impl Worker {
    pub(super) fn new(rank: usize, number: usize, portion: Portion, slowness: f64) -> Worker {
        Worker {
            rank,
            number,
            portion,
            job: None,
            at: (0, 0),
            collating: Vec::new(),
            uses: None,
            began_ns: 0,
            job_began_ns: 0,
            busy_ns: 0,
            life: 0,
            alive: true,
            slowness,
            sleeping: false,
        }
    }

    fn job(&self) -> &Job<Neighbours> {
        self.job.as_ref().expect("it has a job")
    }

    /// Which of so many stages it does.
    fn stages(&self, stages: usize) -> (usize, usize) {
        match self.portion {
            Portion::All => (0, stages),
            Portion::Load => (0, stages.min(1)),
            Portion::Build => (stages.min(1), stages),
        }
    }
}

impl<'a> Run<'a> {
    // ---- looking for work

    /// As the engine's step: take a job, else open the next batch, else sleep. Who only builds takes what was loaded.
    pub(super) fn look(&mut self, worker: u32) {
        let Worker { rank, number, portion, alive, sleeping, .. } = self.workers[worker as usize];
        if !alive || self.workers[worker as usize].job.is_some() {
            return;
        }
        debug_assert!(!sleeping);
        if portion == Portion::Build {
            return match self.ranks[rank].loaded.pop_front() {
                Some(job) => self.begin_job(worker, job),
                None => {
                    self.workers[worker as usize].sleeping = true;
                    self.ranks[rank].sleeping_builders.push(worker);
                }
            };
        }
        loop {
            if let Some(job) = self.next_job(rank, number) {
                return self.begin_job(worker, job);
            }
            if !self.open_next(rank) {
                break;
            }
        }
        self.workers[worker as usize].sleeping = true;
        self.ranks[rank].sleepers.push(worker);
        let effects = self.ranks[rank].flow.idle();
        self.carry_out(rank, effects);
    }

    /// A job that may be begun.
    fn next_job(&mut self, rank: usize, number: usize) -> Option<Job<Neighbours>> {
        let own = &mut self.ranks[rank];
        if !self.holds_jobs {
            return own.policy.take(number);
        }
        if let Some(job) = own.flow.release() {
            return Some(job);
        }
        loop {
            let job = own.policy.take(number)?;
            let BatchId { generation, turn, .. } = job.work.id;
            if let Some(job) = own.flow.admit(generation, turn, job) {
                return Some(job);
            }
        }
    }

    /// Opens the next batch, if it may be opened.
    fn open_next(&mut self, rank: usize) -> bool {
        let own = &mut self.ranks[rank];
        let Opening::Batch { id, course, .. } = own.flow.open() else { return false };
        let range = course.batch_range(id.epoch, id.number);
        let reused = own.idle_blocks > 0;
        own.idle_blocks -= u64::from(reused);
        let effects = own.flow.took(self.batch_bytes, reused, self.batch_bytes);
        own.evict(effects.evict, self.batch_bytes);
        let slots = range.end - range.start;
        let mean = own.costs.mean_ns();
        let together = match self.set.assignment {
            Assignment::Batches => slots,
            Assignment::Samples => self.grain.together(mean, slots as usize) as u64,
        };
        let mut first = range.start;
        while first < range.end {
            let end = (first + together).min(range.end);
            let cost: f64 = match self.grain.by_cost {
                true => (first..end).map(|sample| own.costs.expect(sample, || None)).sum(),
                false => mean * (end - first) as f64,
            };
            let work = Neighbours { id, first, end, load_ns: 0, booked: 0 };
            let samples = (end - first) as u32;
            own.jobs.push(Job { batch: id.turn, cost_ns: cost as u64, samples, work });
            first = end;
        }
        let wakes = if own.policy.anyone_may_take() { own.jobs.len() } else { usize::MAX };
        let effects = own.flow.opened(id, slots, wakes).expect("nobody begins another generation");
        own.policy.submit(&mut own.jobs);
        own.open.push_back(Open { id, left: slots, opened_ns: self.clock.now_ns() });
        self.carry_out(rank, effects);
        true
    }

    // ---- working

    fn begin_job(&mut self, worker: u32, job: Job<Neighbours>) {
        let own = &mut self.workers[worker as usize];
        own.at = (job.work.first, own.stages(self.set.stages.len()).0);
        own.job_began_ns = self.clock.now_ns();
        own.job = Some(job);
        self.begin_stage(worker);
    }

    /// What the worker is at: a stage of a sample, or collating; `None` if it has no stage to do.
    fn stage_of(&self, worker: u32) -> Option<&'a StageCost> {
        let set = self.set;
        let own = &self.workers[worker as usize];
        let end = own.stages(self.set.stages.len()).1;
        match own.collating.is_empty() {
            true => set.stages[..end].get(own.at.1),
            false => set.collate.as_ref(),
        }
    }

    /// Begins the stage the worker is at.
    pub(super) fn begin_stage(&mut self, worker: u32) {
        self.workers[worker as usize].began_ns = self.clock.now_ns();
        let life = self.workers[worker as usize].life;
        let done = Event::Done { worker, life };
        let Some(stage) = self.stage_of(worker) else {
            // Without stages a sample is made in no time.
            return self.clock.at(self.clock.now_ns(), done);
        };
        let latency = match &stage.latency {
            Some(latency) => self.draw(worker, latency, LATENCY),
            None => 0.0,
        };
        match stage.uses {
            None => {
                let cost = self.draw(worker, &stage.cost, 0);
                self.clock.after(latency + cost, done);
            }
            Some(_) if latency > 0.0 => self.clock.after(latency, Event::Reached { worker, life }),
            Some(_) => self.begin_sharing(worker),
        }
    }

    /// The demand of the stage on its resource begins to be served.
    pub(super) fn begin_sharing(&mut self, worker: u32) {
        let Some(StageCost { cost, uses: Some(resource), .. }) = self.stage_of(worker) else {
            return;
        };
        let demand = self.draw(worker, cost, 0);
        let rank = self.workers[worker as usize].rank;
        let is_common = self.set.resources[*resource].shared_by_ranks;
        let resource = (resource * self.set.ranks + if is_common { 0 } else { rank }) as u32;
        self.workers[worker as usize].uses = Some(resource);
        self.resources[resource as usize].begin(self.clock.now_ns(), worker, demand);
        self.expect(resource);
    }

    /// Draws a cost for what the worker is at. A sample costs the same whoever makes it; another epoch draws anew.
    fn draw(&self, worker: u32, cost: &super::Cost, what: u64) -> f64 {
        let own = &self.workers[worker as usize];
        let id = own.job().work.id;
        let (place, stage) = match own.collating.is_empty() {
            true => (own.at.0, own.at.1),
            false => (id.number, self.set.stages.len()),
        };
        let about = (own.rank as u64) << 32 | id.epoch;
        cost.draw(key([self.set.seed, about, place, stage as u64 | what]), place) * own.slowness
    }

    /// Expects the next user of a resource to be done.
    pub(super) fn expect(&mut self, resource: u32) {
        let sharing = &self.resources[resource as usize];
        let version = sharing.version;
        if let Some(at) = sharing.next_ns() {
            self.clock.at(at.max(self.clock.now_ns()), Event::Shared { resource, version });
        }
    }

    pub(super) fn stage_done(&mut self, worker: u32) {
        self.completions += 1;
        let stages = self.set.stages.len();
        let own = &mut self.workers[worker as usize];
        own.uses = None;
        let collates = !own.collating.is_empty();
        let (sample, stage) = own.at;
        let (first, end) = own.stages(stages);
        let counts = if collates { stages } else { stage };
        let took = self.clock.now_ns() - own.began_ns;
        if let Some(outcome) = self.stages.get_mut(counts).filter(|_| collates || stage < end) {
            outcome.count += 1;
            outcome.busy += seconds(took);
        }
        if collates {
            let rank = own.rank;
            for batch in std::mem::take(&mut own.collating) {
                self.finished(rank, batch);
            }
            return self.free(worker);
        }
        if stage + 1 < end {
            own.at.1 += 1;
            return self.begin_stage(worker);
        }
        if sample + 1 < own.job().work.end {
            own.at = (sample + 1, first);
            return self.begin_stage(worker);
        }
        match own.portion {
            Portion::Load => self.loaded(worker),
            Portion::All | Portion::Build => self.made(worker),
        }
    }

    /// A sample is loaded: its bytes are booked, and somebody else goes on with it.
    fn loaded(&mut self, worker: u32) {
        let own = &mut self.workers[worker as usize];
        let (rank, number) = (own.rank, own.number);
        let elapsed = self.clock.now_ns() - own.job_began_ns;
        own.busy_ns += elapsed;
        let mut job = own.job.take().expect("it has a job");
        let BatchId { generation, turn, .. } = job.work.id;
        let raw = self.set.raw_bytes;
        let (booked, effects) = self.ranks[rank].flow.made((generation, turn), 0, raw, raw);
        (job.work.load_ns, job.work.booked) = (elapsed, booked);
        self.ranks[rank].loaded.push_back(job);
        self.carry_out(rank, effects);
        self.wake_builder(rank);
        if self.ranks[rank].policy.finished(number, 1, elapsed) {
            self.wake(rank, usize::MAX);
        }
        self.woken.push_back(worker);
    }

    pub(super) fn wake_builder(&mut self, rank: usize) {
        if let Some(builder) = self.ranks[rank].sleeping_builders.pop() {
            self.workers[builder as usize].sleeping = false;
            self.woken.push_back(builder);
        }
    }

    /// All samples of a job are made. Whoever makes the last of a batch collates it.
    fn made(&mut self, worker: u32) {
        let own = &self.workers[worker as usize];
        let (rank, number, portion) = (own.rank, own.number, own.portion);
        let elapsed = self.clock.now_ns() - own.job_began_ns;
        let Job { samples, ref work, .. } = *own.job();
        let Neighbours { id, first, load_ns, booked, .. } = *work;
        if booked > 0 {
            let effects = self.ranks[rank].flow.freed(booked);
            self.carry_out(rank, effects);
        }
        let costs = &self.ranks[rank].costs;
        if samples == 1 {
            costs.learn(first, load_ns + elapsed, || None);
        } else {
            costs.learn_mean(elapsed as f64 / f64::from(samples));
        }
        let full = self.place(rank, id, u64::from(samples));
        if portion == Portion::All && self.ranks[rank].policy.finished(number, samples, elapsed) {
            self.wake(rank, usize::MAX);
        }
        if self.set.collate.is_some() && !full.is_empty() {
            self.workers[worker as usize].collating = full;
            return self.begin_stage(worker);
        }
        for batch in full {
            self.finished(rank, batch);
        }
        self.free(worker);
    }

    /// Counts samples into their batch, or in ready order into the oldest that are not full. Gives back those that are
    /// full now.
    fn place(&mut self, rank: usize, id: BatchId, samples: u64) -> Vec<Open> {
        let own = &mut self.ranks[rank];
        let mut full = Vec::new();
        let is_in_order = self.set.delivery == Delivery::InOrder;
        let mut left = samples;
        while left > 0 {
            let batch = match is_in_order {
                // They are open by turn, without a gap.
                true => {
                    let oldest = own.open.front().map_or(0, |oldest| oldest.id.turn);
                    own.open.get_mut((id.turn - oldest) as usize)
                }
                false => {
                    let mut open = own.open.iter_mut();
                    open.find(|open| open.id.epoch == id.epoch && open.left > 0)
                }
            };
            let batch = batch.expect("an epoch has as many places as samples");
            let placed = left.min(batch.left);
            batch.left -= placed;
            left -= placed;
            if batch.left == 0 {
                full.push(*batch);
                while own.open.front().is_some_and(|oldest| oldest.left == 0) {
                    own.open.pop_front();
                }
            }
        }
        if self.holds_jobs || !is_in_order {
            let (_, effects) = own.flow.made((id.generation, id.turn), samples, 0, 0);
            self.carry_out(rank, effects);
        }
        full
    }

    fn finished(&mut self, rank: usize, batch: Open) {
        let now = self.clock.now_ns();
        let own = &mut self.ranks[rank];
        let positions = match self.set.delivery {
            Delivery::InOrder => Vec::new(),
            // Which ones does not matter here, as long as each comes once.
            Delivery::Ready { .. } => batch_range(self.set, batch.id.number).collect(),
        };
        let done = Finished { batch: (), positions, bytes: self.batch_bytes };
        let batch_ns = (now - batch.opened_ns) as f64;
        if let Ok(effects) = own.flow.finished(batch.id, done, Some(batch_ns)) {
            own.count_ready(now, 1.0);
            self.carry_out(rank, effects);
        }
    }

    /// A worker has done its job and looks for another.
    fn free(&mut self, worker: u32) {
        let own = &mut self.workers[worker as usize];
        own.busy_ns += self.clock.now_ns() - own.job_began_ns;
        own.job = None;
        self.woken.push_back(worker);
    }
}

/// Tells the draw of a stage's latency from that of its cost.
const LATENCY: u64 = 1 << 32;
