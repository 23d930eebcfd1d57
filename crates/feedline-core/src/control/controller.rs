//! The state machine: counts in, settings out. See the [module](super) for what it goes by.

use std::collections::VecDeque;

use super::window::{Cores, Counters, Window};
use super::{BACKOFF, CONTENT, Change, ControlStats, GAIN, Setting, WAITS};

const MILLISECOND: u64 = 1_000_000;
/// How long a window is at least.
const WINDOW: u64 = 300 * MILLISECOND;
/// A window of so many samples tells a few per cent.
const SAMPLES: u64 = 64;
/// From here on a window is long enough with fewer samples, and from there on with any.
const LONG: u64 = 1_500 * MILLISECOND;
const LONGEST: u64 = 4_000 * MILLISECOND;
/// What follows a change is left out for so long at least, and at most.
const SETTLE: u64 = 100 * MILLISECOND;
const SETTLED: u64 = 1_000 * MILLISECOND;
/// Workers that sleep more than this while the loop waits have too little work under way.
const IDLE: f64 = 0.1;
/// From here on, a worker computes rather than waits.
const COMPUTES: f64 = 0.5;
/// For so long the loop must not have waited before workers are parked for the first time, and at most for any further.
const PATIENCE: u64 = 1_200 * MILLISECOND;
const LONGEST_PATIENCE: u64 = 600_000 * MILLISECOND;
/// Deliveries that tell whether reading further ahead brought something.
const DELIVERIES: u64 = 4;
/// What was refused is tried again when the work takes so many times as long, or as short.
const CHANGED: f64 = 1.5;
const LONGEST_BACKOFF: u64 = 600_000 * MILLISECOND;
/// After a step back nothing is tried for so long at first, and at most.
const REST: u64 = 500 * MILLISECOND;
const LONGEST_REST: u64 = 4_000 * MILLISECOND;
/// What was refused is tried with other work after this part of its waiting time, and after this time in any case.
const OTHER_WORK: u64 = 16;
const OTHER_WORK_LONGEST: u64 = 4_000 * MILLISECOND;
/// Of so many kinds of work it is known what was refused with them: of a loop that comes and goes, of both.
const WORKS: usize = 4;
/// How many changes are kept.
const KEPT: usize = 64;

/// What the controller may do.
#[derive(Copy, Clone, Debug)]
pub struct Bounds {
    /// Cores that this process may use.
    pub cores: usize,
    /// Whether it decides how many workers there are, and how many at most.
    pub workers: Option<usize>,
    /// Whether it decides how far they read ahead, and how far at most.
    pub prefetch: Option<usize>,
    /// Samples of a batch.
    pub batch_size: u64,
}

/// Which way a trial goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Way {
    /// More workers.
    More,
    /// Read further ahead.
    Further,
    /// As many workers as the cores serve.
    ToCores,
    /// Fewer workers: the loop does not need them.
    Fewer,
}

/// A change that has not proved itself.
#[derive(Copy, Clone, Debug)]
struct Trial {
    way: Way,
    before: Setting,
    rate: f64,
    delivered: Option<f64>,
}

/// A trial that brought nothing.
#[derive(Copy, Clone, Debug)]
struct Refused {
    /// How many workers, or batches, it would have been.
    target: usize,
    /// Whether it was worse, not only no better: then less of it may be better.
    was_worse: bool,
    rate: f64,
    at_ns: u64,
    backoff: u64,
}

/// Decides how many workers work and how far they read ahead.
pub struct Controller {
    bounds: Bounds,
    setting: Setting,
    /// What was counted when the window began.
    mark: Option<Counters>,
    settling: bool,
    /// Whether the loop was elsewhere before.
    is_back: bool,
    trial: Option<Trial>,
    /// By way, of the last works.
    refused: [Vec<Refused>; 4],
    /// Since when the loop has not waited.
    content_ns: Option<u64>,
    /// How long that must last before workers are parked.
    patience: u64,
    /// As what workers were parked that have not been needed since.
    parked: Option<Way>,
    /// Until when workers beyond the cores are borne, and for how long the next time.
    bears_until: u64,
    bears: u64,
    /// Whether the last change of workers that was kept was for more.
    grew: Option<bool>,
    /// Until when nothing is tried, and for how long that is the next time.
    rests_until: u64,
    rest: u64,
    stays: String,
    changes: VecDeque<Change>,
    changed: u64,
}

impl Controller {
    /// Begins with a setting of at least one worker and one batch.
    #[must_use]
    pub fn new(bounds: Bounds, start: Setting) -> Controller {
        Controller {
            bounds,
            setting: start,
            mark: None,
            settling: false,
            is_back: false,
            trial: None,
            refused: Default::default(),
            content_ns: None,
            patience: PATIENCE,
            parked: None,
            bears_until: 0,
            bears: BACKOFF,
            grew: None,
            rests_until: 0,
            rest: REST,
            stays: "nothing has been measured yet".into(),
            changes: VecDeque::new(),
            changed: 0,
        }
    }

    /// When it wants to be told again, in nanoseconds of the counters' clock.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        let pause = if self.settling { SETTLE } else { WINDOW };
        self.mark.map_or(0, |mark| mark.now_ns + pause)
    }

    /// No more workers than these are to be had, or no more batches fit. Returns what to do from now on.
    pub fn at_most(&mut self, workers: Option<usize>, prefetch: Option<usize>) -> Setting {
        let least = |most: Option<usize>, given: Option<usize>| match (most, given) {
            (Some(most), Some(given)) => Some(most.min(given)),
            _ => most,
        };
        self.bounds.workers = least(self.bounds.workers, workers);
        self.bounds.prefetch = least(self.bounds.prefetch, prefetch);
        let within = |setting: Setting| Setting {
            workers: setting.workers.min(workers.unwrap_or(setting.workers)).max(1),
            prefetch: setting.prefetch.min(prefetch.unwrap_or(setting.prefetch)).max(1),
        };
        if let Some(trial) = &mut self.trial {
            trial.before = within(trial.before);
        }
        let to = within(self.setting);
        if to == self.setting {
            return to;
        }
        // What was being tried is not what there is now.
        self.trial = None;
        let why = match to.workers < self.setting.workers {
            true => {
                "no more workers are to be had: they cannot be started, or do not fit into the memory"
            }
            false => "no more batches fit into the memory",
        };
        self.stays = why.into();
        self.change(to, why.into(), self.mark.map_or(0, |mark| mark.now_ns))
    }

    /// What it is at, what it did and why.
    #[must_use]
    pub fn stats(&self) -> ControlStats {
        ControlStats {
            setting: self.setting,
            most_workers: self.bounds.workers.unwrap_or(self.setting.workers),
            most_prefetch: self.bounds.prefetch.unwrap_or(self.setting.prefetch),
            cores: self.bounds.cores,
            stays: self.stays.clone(),
            changes: self.changes.iter().cloned().collect(),
            changed: self.changed,
        }
    }

    /// This is what has been counted. Returns what to do from now on, if it is something else.
    pub fn look(&mut self, now: &Counters) -> Option<Setting> {
        let Some(mark) = self.mark else {
            // Whatever is opened and learned at the start is part of no window.
            (self.mark, self.settling) = (Some(*now), true);
            return None;
        };
        let window = Window::between(&mark, now, self.setting.workers);
        let is_nothing = window.samples == 0 && window.batches == 0 && window.wait == 0.0;
        if is_nothing || now.absences != mark.absences {
            // Nobody wants anything, or did not for a while: this time is part of no window.
            self.mark = Some(*now);
            (self.settling, self.is_back) = (true, true);
            return None;
        }
        if self.settling {
            // A loop that was elsewhere finds batches ready, the more the further was read ahead.
            let ready = if self.is_back { self.setting.prefetch as u64 } else { 0 };
            let is_over = window.elapsed_ns >= SETTLED || window.batches > ready;
            if window.elapsed_ns >= SETTLE && is_over {
                (self.settling, self.is_back) = (false, false);
                self.mark = Some(*now);
            }
            return None;
        }
        if !self.is_enough(&window) {
            return None;
        }
        self.mark = Some(*now);
        if let Some(trial) = self.trial.take()
            && let Some(back) = self.judge(trial, &window, now.now_ns)
        {
            return Some(back);
        }
        self.choose(&window, now.now_ns)
    }

    fn is_enough(&self, window: &Window) -> bool {
        let workers = self.setting.workers as u64;
        let is_further = self.trial.is_some_and(|trial| trial.way == Way::Further);
        if is_further && window.elapsed_ns < LONGEST && window.batches < DELIVERIES {
            return false;
        }
        let samples = match window.elapsed_ns {
            ..WINDOW => return false,
            WINDOW..LONG => SAMPLES.max(4 * workers),
            LONG..LONGEST => 2 * workers,
            LONGEST.. => 1,
        };
        window.samples >= samples
    }

    /// Whether a trial is kept; else what is returned to.
    fn judge(&mut self, trial: Trial, window: &Window, now_ns: u64) -> Option<Setting> {
        // Who may read further ahead makes more for a while whatever comes of it, so what is delivered counts there.
        let (before, after) = match (trial.way, trial.delivered, window.delivered) {
            (Way::Further, Some(before), Some(after)) => (before, after),
            _ => (trial.rate, window.rate),
        };
        let gain = after / before.max(f64::MIN_POSITIVE) - 1.0;
        let is_kept = match trial.way {
            Way::More | Way::Further => gain >= GAIN || window.wait < CONTENT,
            Way::ToCores => gain >= -GAIN / 2.0,
            Way::Fewer => window.wait <= WAITS,
        };
        if is_kept {
            if self.setting.workers != trial.before.workers {
                if matches!(trial.way, Way::Fewer | Way::ToCores) {
                    self.parked = Some(trial.way);
                }
                let grew = self.setting.workers > trial.before.workers;
                if self.grew.replace(grew) == Some(!grew) {
                    self.step_back(now_ns);
                }
            }
            return None;
        }
        self.step_back(now_ns);
        if trial.way == Way::Fewer {
            self.patience = (2 * self.patience).min(LONGEST_PATIENCE);
        }
        let target = match trial.way {
            Way::Further => self.setting.prefetch,
            Way::More | Way::ToCores | Way::Fewer => self.setting.workers,
        };
        let refused = &mut self.refused[trial.way as usize];
        let before = refused.iter().position(|last| last.is_of(trial.rate));
        let backoff = match before.map(|place| refused.remove(place)) {
            // Half-way to what was refused: that is part of the same step back.
            Some(last) if now_ns < last.at_ns + last.backoff => last.backoff,
            Some(last) => (2 * last.backoff).min(LONGEST_BACKOFF),
            None => BACKOFF,
        };
        if refused.len() == WORKS {
            refused.remove(0);
        }
        refused.push(Refused {
            target,
            was_worse: gain < -GAIN,
            rate: trial.rate,
            at_ns: now_ns,
            backoff,
        });
        let why = match trial.way {
            Way::Fewer => format!("the loop then waited {:.0} %", 100.0 * window.wait),
            _ => format!("that changed the throughput by {:+.0} %", 100.0 * gain),
        };
        self.stays = format!("what was tried last was taken back: {why}");
        Some(self.change(trial.before, why, now_ns))
    }

    /// Something was undone, at once or later: the next trial waits, ever longer.
    fn step_back(&mut self, now_ns: u64) {
        self.rests_until = now_ns + self.rest;
        self.rest = (2 * self.rest).min(LONGEST_REST);
    }

    fn choose(&mut self, window: &Window, now_ns: u64) -> Option<Setting> {
        if window.wait < CONTENT {
            self.content_ns.get_or_insert(now_ns.saturating_sub(window.elapsed_ns));
            return self.park(window, now_ns);
        }
        self.content_ns = None;
        if window.wait <= WAITS {
            self.stays = format!("the loop waits only {:.1} % of its time", 100.0 * window.wait);
            return None;
        }
        if now_ns < self.rests_until {
            self.stays = "the last change was a step back: the next waits".into();
            return None;
        }
        let chosen = self.to_cores(window, now_ns);
        let chosen = chosen.or_else(|| self.further(window, now_ns));
        let (way, to, why) = chosen.or_else(|| self.more(window, now_ns))?;
        self.try_out(way, to, why, window, now_ns)
    }

    /// As many workers as the cores serve, if there are more and they stand in line.
    fn to_cores(&self, window: &Window, now_ns: u64) -> Option<(Way, Setting, String)> {
        let Bounds { cores, workers, .. } = self.bounds;
        let Cores { each, had, .. } = window.cores?;
        let awake = (1.0 - window.idle) * self.setting.workers as f64;
        // What one would want of a core if it stood in line for none; half more where they wait for something else.
        let alone = had / (had + 1.0 - each).max(0.001);
        let spare = if alone > 0.8 { 1.0 } else { 1.5 };
        let serves = (spare * cores as f64 / alone.max(0.001) - 0.2).ceil() as usize;
        let is_crowd = each > 0.8 && awake > 1.2 * cores as f64 && self.setting.workers > serves;
        let may = now_ns >= self.bears_until && !self.is_refused(Way::ToCores, window, now_ns);
        workers.filter(|_| is_crowd && may)?;
        let why = format!(
            "of {} workers {awake:.0} want to compute at a time, and there are {cores} cores",
            self.setting.workers
        );
        Some((Way::ToCores, self.with_work_for(serves), why))
    }

    /// Twice the read-ahead, if workers sleep.
    fn further(&self, window: &Window, now_ns: u64) -> Option<(Way, Setting, String)> {
        let most = self.bounds.prefetch?;
        let Setting { prefetch, .. } = self.setting;
        if window.idle <= IDLE || prefetch >= most || self.is_refused(Way::Further, window, now_ns)
        {
            return None;
        }
        let why = format!(
            "the workers slept {:.0} % of the time while the loop waited {:.0} %",
            100.0 * window.idle,
            100.0 * window.wait
        );
        let to = Setting { prefetch: (2 * prefetch).min(most), ..self.setting };
        Some((Way::Further, to, why))
    }

    /// More workers, if cores are free or workers need none.
    fn more(&mut self, window: &Window, now_ns: u64) -> Option<(Way, Setting, String)> {
        let Setting { workers, .. } = self.setting;
        let waits = format!("the loop waits {:.0} % of its time", 100.0 * window.wait);
        let Some(most) = self.bounds.workers else {
            self.stays = format!("{waits}, and the number of workers is given");
            return None;
        };
        if window.idle >= COMPUTES {
            self.stays = format!(
                "{waits}, but the workers sleep {:.0} % of theirs: more would too",
                100.0 * window.idle
            );
            return None;
        }
        let (target, why) = match window.cores {
            None => (2 * workers, format!("{waits} and the workers are busy")),
            Some(cores) => match self.served(cores) {
                Ok((target, about)) => (target, format!("{waits}, {about}")),
                Err(about) => {
                    self.stays = format!("{waits}, but {about}");
                    return None;
                }
            },
        };
        let mut target = target.min(most);
        if let Some(last) = self.refusal(Way::More, window, now_ns) {
            // Half-way, if so many were worse.
            let half = workers.midpoint(last.target);
            target = if last.was_worse { target.min(half) } else { workers };
        }
        if target <= workers {
            self.stays = match workers >= most {
                true => format!("{waits}, and there may be {most} workers"),
                false => format!("{waits}, but more workers brought nothing when it was tried"),
            };
            return None;
        }
        Some((Way::More, self.with_work_for(target), why))
    }

    /// So many workers, and work ahead for each of them and for those who are done with theirs.
    fn with_work_for(&self, workers: usize) -> Setting {
        let Setting { prefetch, .. } = self.setting;
        let batches = 1 + (2 * workers as u64).div_ceil(self.bounds.batch_size.max(1)) as usize;
        let enough = self.bounds.prefetch.map_or(prefetch, |most| prefetch.max(batches.min(most)));
        Setting { workers, prefetch: enough }
    }

    /// How many workers the cores serve, going up in steps, and why; or why no more.
    fn served(&self, cores: Cores) -> Result<(usize, String), String> {
        let workers = self.setting.workers;
        let Cores { each, had, used, queued } = cores;
        let all = self.bounds.cores as f64;
        if each >= COMPUTES {
            let about = format!("{:.1} of {all} cores are wanted", used + queued);
            let free = all - used - queued;
            // One more where the rest of a core is too little for it, but those there are do not always compute.
            let least = if each < 0.95 && free > 0.05 * all { 1.0 } else { 0.0 };
            let more = (free / each + 0.2).floor().max(least);
            if more < 1.0 {
                return Err(format!("no core is free for another worker: {about}"));
            }
            return Ok((workers + more as usize, about));
        }
        // Those who wait for something else leave room for others. That somebody of another process is before them now and
        // then says nothing about how many the cores serve.
        let serves = (all / had.max(0.001)).ceil();
        if all - used < 0.05 * all || serves < (workers + 1) as f64 {
            return Err(format!(
                "{used:.1} of {all} cores are used: none is free for more workers"
            ));
        }
        let times = if had < 0.1 { 4 } else { 2 };
        let about =
            format!("and the workers spend {:.0} % of theirs waiting", 100.0 * (1.0 - each));
        Ok(((times * workers).min(serves as usize), about))
    }

    /// Fewer workers, if the loop never waits and they sleep.
    fn park(&mut self, window: &Window, now_ns: u64) -> Option<Setting> {
        self.stays = "the loop does not wait: loading is not the bottleneck".into();
        let workers = self.setting.workers;
        // A third more than work, for what is uneven.
        let needed = ((1.0 - window.idle) * workers as f64 * 4.0 / 3.0).ceil().max(1.0) as usize;
        let content_ns = self.content_ns.map_or(0, |since| now_ns.saturating_sub(since));
        let is_surplus = content_ns >= self.patience && 4 * needed <= 3 * workers;
        self.bounds.workers.filter(|_| is_surplus)?;
        if now_ns < self.rests_until || self.is_refused(Way::Fewer, window, now_ns) {
            return None;
        }
        let why = format!(
            "the loop does not wait, and the workers sleep {:.0} % of the time",
            100.0 * window.idle
        );
        self.content_ns = None;
        let to = Setting { workers: needed, ..self.setting };
        self.try_out(Way::Fewer, to, why, window, now_ns)
    }

    fn is_refused(&self, way: Way, window: &Window, now_ns: u64) -> bool {
        self.refusal(way, window, now_ns).is_some()
    }

    /// What still speaks against a way: that it was refused with work of this speed, or just now with another.
    fn refusal(&self, way: Way, window: &Window, now_ns: u64) -> Option<&Refused> {
        let refused = &self.refused[way as usize];
        let same = refused.iter().find(|last| last.is_of(window.rate));
        let (last, pause) = match same {
            Some(last) => (last, last.backoff),
            None => {
                let last = refused.last()?;
                (last, (last.backoff / OTHER_WORK).min(OTHER_WORK_LONGEST))
            }
        };
        (now_ns < last.at_ns + pause).then_some(last)
    }

    fn try_out(
        &mut self,
        way: Way,
        to: Setting,
        why: String,
        window: &Window,
        now_ns: u64,
    ) -> Option<Setting> {
        if to.workers > self.setting.workers {
            // Those who were parked are needed after all: the next time it is waited twice as long.
            match self.parked.take() {
                Some(Way::Fewer) => self.patience = (2 * self.patience).min(LONGEST_PATIENCE),
                Some(_) => {
                    self.bears_until = now_ns + self.bears;
                    self.bears = (2 * self.bears).min(LONGEST_PATIENCE);
                }
                None => {}
            }
        }
        let Window { rate, delivered, .. } = *window;
        self.trial = Some(Trial { way, before: self.setting, rate, delivered });
        self.stays = "a change is being tried".into();
        Some(self.change(to, why, now_ns))
    }

    fn change(&mut self, to: Setting, why: String, at_ns: u64) -> Setting {
        if self.changes.len() == KEPT {
            self.changes.pop_front();
        }
        self.changes.push_back(Change { at_ns, from: self.setting, to, why });
        self.changed += 1;
        self.setting = to;
        self.settling = true;
        to
    }
}

impl Refused {
    /// Whether work of this rate is the one with which it was refused.
    fn is_of(&self, rate: f64) -> bool {
        let ratio = rate / self.rate.max(f64::MIN_POSITIVE);
        (1.0 / CHANGED..=CHANGED).contains(&ratio)
    }
}
