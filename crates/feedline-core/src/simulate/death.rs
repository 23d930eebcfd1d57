//! Workers that die, and those that come in their place.

use super::clock::Event;
use super::run::Run;
use super::worker::Portion;

impl Run<'_> {
    pub(super) fn die(&mut self, death: usize) {
        let death = self.set.deaths[death];
        let crew = self.set.crew();
        if death.rank >= self.set.ranks || death.worker >= crew {
            return;
        }
        let worker = (death.rank * crew + death.worker) as u32;
        let own = &mut self.workers[worker as usize];
        if !own.alive {
            return;
        }
        own.alive = false;
        own.life += 1;
        if std::mem::take(&mut own.sleeping) {
            let rank = &mut self.ranks[death.rank];
            rank.sleepers.retain(|sleeper| *sleeper != worker);
            rank.sleeping_builders.retain(|sleeper| *sleeper != worker);
        }
        if own.job.is_some() {
            own.busy_ns += self.clock.now_ns() - own.job_began_ns;
        }
        if let Some(resource) = own.uses.take() {
            self.resources[resource as usize].leave(self.clock.now_ns(), worker);
            self.expect(resource);
        }
        let own = &mut self.workers[worker as usize];
        // What it has made of the job is lost with it; what it collated is collated by whoever comes in its place.
        let lost = if own.collating.is_empty() { own.job.take() } else { None };
        match (lost, own.portion) {
            (None, _) => {}
            (Some(job), Portion::Build) => {
                self.ranks[death.rank].loaded.push_front(job);
                self.wake_builder(death.rank);
            }
            (Some(job), Portion::All | Portion::Load) => {
                self.ranks[death.rank].policy.submit(&mut vec![job]);
                self.wake(death.rank, usize::MAX);
            }
        }
        self.clock.after(death.replaced_after, Event::Replaced { worker });
    }

    /// Another worker takes the place of one that died.
    pub(super) fn replaced(&mut self, worker: u32) {
        let own = &mut self.workers[worker as usize];
        own.alive = true;
        match own.job {
            Some(_) => {
                own.job_began_ns = self.clock.now_ns();
                self.begin_stage(worker);
            }
            None => self.woken.push_back(worker),
        }
    }
}
