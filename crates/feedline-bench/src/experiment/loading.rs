//! Loaders under test: one child process for each, asked to load batches and metered while it does.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::driver::{Description, Driver};
use super::{ExperimentError, Session};
use crate::results::{Check, Measurement, Point, Stretch};
use crate::{Digest, Probe, SystemProbe};

/// How often the tree of a loader is sampled.
const INTERVAL: Duration = Duration::from_millis(50);

/// What a loader is to load, and how.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LoadRequest {
    pub(crate) contestant: String,
    /// What a sample is: a kind and its parameters, as `feedline.bench.workloads` knows them.
    pub(crate) workload: Value,
    pub(crate) workers: u32,
    /// Batches ahead for each worker.
    pub(crate) prefetch: u32,
    pub(crate) batch_size: u32,
    pub(crate) batches: u32,
    /// Seconds that the consumer takes for each batch, as a training step would.
    pub(crate) step_s: f64,
    /// How many samples' stretches are wanted.
    pub(crate) trace: u32,
    /// Whether batches are to be in page-locked memory.
    pub(crate) pin_memory: bool,
    /// The model that is trained with the batches, instead of a step that only takes time.
    pub(crate) model: Option<String>,
}

/// The colour of a loader, the same in every chart.
pub(crate) fn colour(contestant: &str) -> usize {
    const ORDER: [&str; 8] =
        ["feedline", "torch", "feedline.torch", "torchdata", "spdl", "grain", "tf.data", "dali"];
    // Those of text and of volumes meet no others than feedline.
    let contestant = match contestant {
        "torch+monai" => "torch",
        "datasets" | "torch+nibabel" | "torch+pynrrd" => "torchdata",
        other => other,
    };
    ORDER.iter().position(|it| *it == contestant).unwrap_or(ORDER.len() - 1)
}

/// What a driver answers after a run.
#[derive(Debug, Deserialize)]
struct LoadAnswer {
    seconds: f64,
    items: u64,
    bytes: u64,
    #[serde(default)]
    figures: BTreeMap<String, f64>,
    #[serde(default)]
    waits_s: Vec<f64>,
    #[serde(default)]
    trace: Vec<Stretch>,
    #[serde(default)]
    switches: Option<(u64, u64)>,
}

#[derive(Debug, Deserialize)]
struct Ready {
    #[serde(rename = "ready")]
    _is_ready: bool,
}

/// The child processes of all loaders that take part.
#[derive(Debug, Default)]
pub(crate) struct Loaders {
    drivers: BTreeMap<String, Driver>,
    pub(crate) names: Vec<String>,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) notes: Vec<String>,
}

impl Loaders {
    /// Starts a child for each of `wanted` that can take part. Those named by the user must be able to;
    /// those that are merely usual are noted as absent.
    pub(crate) fn start(
        wanted: &[String],
        are_demanded: bool,
        session: &Session<'_>,
    ) -> Result<Self, ExperimentError> {
        let mut scout = Driver::start(&session.python, "all contestants")?;
        let Description { contestants, versions } = scout.describe()?;
        let mut loaders = Self { versions, ..Self::default() };
        let mut reason = None;
        for name in wanted {
            let absence = contestants.get(name).ok_or_else(|| {
                let known = contestants.keys().cloned().collect::<Vec<_>>().join(", ");
                ExperimentError::UnknownContestant { name: name.clone(), known }
            })?;
            match absence {
                None => loaders.names.push(name.clone()),
                Some(why) => {
                    let absent = ExperimentError::Absent { name: name.clone(), why: why.clone() };
                    if are_demanded {
                        return Err(absent);
                    }
                    loaders.notes.push(format!("{name} took no part: {why}"));
                    reason.get_or_insert(absent);
                }
            }
        }
        if loaders.names.is_empty() {
            let nobody = || ExperimentError::Setting { problem: "`contestants` is empty".into() };
            return Err(reason.unwrap_or_else(nobody));
        }
        for name in &loaders.names {
            loaders.drivers.insert(name.clone(), Driver::start(&session.python, name)?);
        }
        Ok(loaders)
    }

    /// Why batches cannot be put into page-locked memory here, in torch's words; `None` if they can, or if nobody with torch
    /// takes part.
    pub(crate) fn pinning(&mut self) -> Result<Option<String>, ExperimentError> {
        #[derive(Deserialize)]
        struct PinningAnswer {
            warning: Option<String>,
        }
        let with_torch =
            ["torch", "datasets"].into_iter().find(|it| self.drivers.contains_key(*it));
        let Some(name) = with_torch else { return Ok(None) };
        let PinningAnswer { warning } = self.driver(name)?.ask(&json!({"do": "pinning"}))?;
        Ok(warning)
    }

    /// Runs a job before it is measured, so that files and memory are at hand, and says how many seconds it took.
    pub(crate) fn warm_up(
        &mut self,
        job: &LoadRequest,
        session: &Session<'_>,
    ) -> Result<f64, ExperimentError> {
        #[derive(Deserialize)]
        struct Warm {
            seconds: f64,
        }
        let mut request = json!(job);
        request["do"] = "warm".into();
        let asked = self.driver(&job.contestant).and_then(|driver| driver.ask::<Warm>(&request));
        match asked {
            Ok(Warm { seconds }) => Ok(seconds),
            Err(error) => {
                if !session.is_interrupted() {
                    self.restart(&job.contestant, session);
                }
                Err(error)
            }
        }
    }

    /// Runs a job once.
    pub(crate) fn measure(
        &mut self,
        point: &Point,
        round: u32,
        job: &LoadRequest,
        session: &Session<'_>,
    ) -> Result<Measurement, ExperimentError> {
        self.try_measure(point, round, job).inspect_err(|_| {
            if !session.is_interrupted() {
                self.restart(&job.contestant, session);
            }
        })
    }

    fn try_measure(
        &mut self,
        point: &Point,
        round: u32,
        job: &LoadRequest,
    ) -> Result<Measurement, ExperimentError> {
        let driver = self.driver(&job.contestant)?;
        let mut request = json!(job);
        request["do"] = "load".into();
        driver.ask::<Ready>(&request)?;
        let mut probe = SystemProbe::with_interval(INTERVAL).of(driver.id());
        probe.begin();
        let answer: LoadAnswer = driver.ask(&json!({"do": "go"}))?;
        let mut usage = probe.end();
        if let Some((voluntary, involuntary)) = answer.switches {
            usage.voluntary_switches = Some(voluntary);
            usage.involuntary_switches = Some(involuntary);
        }
        Ok(Measurement {
            point: point.clone(),
            round,
            seconds: answer.seconds,
            items: answer.items,
            bytes: Some(answer.bytes),
            figures: answer.figures,
            waits_s: answer.waits_s,
            usage,
            moments: probe.take_moments(),
            trace: answer.trace,
        })
    }

    /// Compares what all loaders deliver for their jobs with what the first one does.
    ///
    /// With a `tolerance` the mean difference of values may be up to that; without one all bytes must be
    /// equal.
    pub(crate) fn compare_outputs(
        &mut self,
        data: &str,
        tolerance: Option<f64>,
        takers: &[LoadRequest],
        session: &Session<'_>,
        is_known: &dyn Fn(&str, &str) -> bool,
    ) -> Result<Vec<Check>, ExperimentError> {
        let folder = session.cache.clone();
        let Some(reference) = takers.first().map(|job| job.contestant.clone()) else {
            return Ok(Vec::new());
        };
        if takers.iter().all(|job| is_known(&job.contestant, data)) {
            return Ok(Vec::new());
        }
        let file = |name: &str| folder.join(format!(".output-{name}.npy"));
        let mut checks = Vec::new();
        for job in takers {
            let name = &job.contestant;
            let found = self.compare_one(name, job, &file(name), &file(&reference));
            let (agrees, what, digest) = match found {
                Ok((0.0, _, digest)) => (true, "equal bit by bit".into(), Some(digest)),
                Ok((max, mean, digest)) => {
                    let what = format!("values differ by {mean:.2e} on average, {max:.2e} at most");
                    (tolerance.is_some_and(|most| mean <= most), what, Some(digest))
                }
                Err(error) if session.is_interrupted() => return Err(error),
                Err(error) => {
                    self.restart(name, session);
                    (false, error.to_string(), None)
                }
            };
            let (contestant, reference) = (name.clone(), reference.clone());
            checks.push(Check { contestant, reference, data: data.into(), agrees, what, digest });
        }
        for LoadRequest { contestant: name, .. } in takers {
            // Best effort: a file that was never written is not there to remove.
            let _ = std::fs::remove_file(file(name));
        }
        Ok(checks)
    }

    /// The largest and the mean difference from the reference's output, and the output's fingerprint.
    fn compare_one(
        &mut self,
        name: &str,
        job: &LoadRequest,
        file: &Path,
        reference: &Path,
    ) -> Result<(f64, f64, Digest), ExperimentError> {
        #[derive(Deserialize)]
        struct Saved {
            digest: Digest,
        }
        #[derive(Deserialize)]
        struct Apart {
            mean: f64,
            max: f64,
        }
        let driver = self.driver(name)?;
        let mut request = json!(job);
        request["do"] = "save".into();
        request["to"] = json!(file);
        let Saved { digest } = driver.ask(&request)?;
        let of = json!([reference, file]);
        let Apart { mean, max } = driver.ask(&json!({"do": "difference", "of": of}))?;
        Ok((max, mean, digest))
    }

    /// Replaces a child that broke down, so that the next request finds a working one.
    fn restart(&mut self, name: &str, session: &Session<'_>) {
        self.drivers.remove(name);
        if let Ok(driver) = Driver::start(&session.python, name) {
            self.drivers.insert(name.to_owned(), driver);
        }
    }

    fn driver(&mut self, contestant: &str) -> Result<&mut Driver, ExperimentError> {
        self.drivers.get_mut(contestant).ok_or_else(|| ExperimentError::Driver {
            contestant: contestant.into(),
            what: "could not be started again".into(),
        })
    }
}
