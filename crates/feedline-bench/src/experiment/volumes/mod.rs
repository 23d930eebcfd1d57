//! `volumes`: workers and batch size for the segmentation of CT and MR.
//!
//! A sample is a random patch of a volume, brought to mean 0 and deviation 1, with the same patch of its mask.
//! Published for torch's DataLoader with 1, 2, 4 and 8 workers and batches of 1 to 8: more workers are faster, the
//! less so the larger batches are, and take more processor and memory.

mod cases;
mod view;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::cases::Cases;
use super::data::Cache;
use super::loading::{LoadRequest, Loaders};
use super::settings::{self, ExperimentSettings, SettingsTable, amount, in_range, whole, wholes};
use super::{Design, Experiment, ExperimentError, PlannedPoint, Session, SessionEvent, memory};
use crate::generate::{PhantomFormat, PhantomLayout, PhantomSpec};
use crate::kernel;
use crate::results::{Axis, Check, Measurement, Point};
use crate::units;

pub(super) use view::view;

/// Samples whose stretches are kept for the timeline.
const TRACED: u32 = 192;

/// How far patches may be apart on average, in standard deviations: sums in float32 and float64 differ by some
/// 1e-7, a patch that is a voxel off by 0.1.
const PATCHES_APART: f64 = 1e-5;

/// Patches that are compared; each is kept on disk meanwhile.
const COMPARED: u32 = 8;

/// Contestants that read one format alone.
const PLAIN_READERS: [&str; 2] = ["torch+nibabel", "torch+pynrrd"];

/// The largest patch along a side.
const LONGEST: u32 = 2048;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeSettings {
    contestants: Vec<String>,
    #[serde(deserialize_with = "wholes")]
    workers: Vec<u32>,
    #[serde(deserialize_with = "wholes")]
    batch_sizes: Vec<u32>,
    /// Patches at each point, but at least two batches more than workers.
    #[serde(deserialize_with = "whole")]
    samples: u32,
    /// Voxels of a patch along x, y and z.
    #[serde(deserialize_with = "wholes")]
    patch: Vec<u32>,
    /// Volumes to make, where they are made.
    #[serde(deserialize_with = "whole")]
    volumes: u32,
    /// Their voxels along x, y and z.
    #[serde(deserialize_with = "wholes")]
    size: Vec<u32>,
    /// `nii.gz`, `nii`, `nrrd` or `nrrd-raw`.
    format: PhantomFormat,
    /// Batches ahead for each worker.
    #[serde(deserialize_with = "whole")]
    prefetch: u32,
    /// Seconds that a training step takes.
    step_s: f64,
    /// `warm` or `cold`.
    cache: Cache,
    seed: u64,
    #[serde(deserialize_with = "whole")]
    rounds: u32,
}

impl ExperimentSettings for VolumeSettings {
    fn full() -> Self {
        let all = ["torch+monai", "torch+nibabel", "torch+pynrrd", "feedline"];
        Self {
            contestants: all.map(str::to_owned).to_vec(),
            workers: vec![1, 2, 4, 8],
            batch_sizes: (1..=8).collect(),
            samples: 256,
            patch: vec![96, 96, 48],
            volumes: 16,
            size: vec![128, 128, 64],
            format: PhantomFormat::NiftiGz,
            prefetch: 2,
            step_s: 0.0,
            cache: Cache::Warm,
            seed: 0,
            rounds: 1,
        }
    }

    fn quick() -> Self {
        Self { batch_sizes: vec![1, 4], samples: 16, volumes: 8, ..Self::full() }
    }

    fn check(&self) -> Result<(), ExperimentError> {
        in_range("workers", &self.workers, 0..=256)?;
        in_range("batch_sizes", &self.batch_sizes, 1..=65_536)?;
        in_range("samples", &[self.samples], 1..=1_000_000)?;
        in_range("volumes", &[self.volumes], 1..=1_000_000)?;
        in_range("prefetch", &[self.prefetch], 1..=64)?;
        in_range("rounds", &[self.rounds], 1..=1000)?;
        amount("step_s", &[self.step_s], 3600.0)?;
        let patch = three("patch", &self.patch)?;
        let size = three("size", &self.size)?;
        if patch.iter().zip(size).any(|(patch, size)| *patch > size) {
            let (patch, size) = (written(patch), written(size));
            let problem = format!("setting `patch` is {patch}, more than `size`, which is {size}");
            return Err(ExperimentError::Setting { problem });
        }
        self.spec()?.check()
    }
}

/// Three sides, each of a size that can be.
fn three(name: &str, sides: &[u32]) -> Result<[u32; 3], ExperimentError> {
    in_range(name, sides, 1..=LONGEST)?;
    <[u32; 3]>::try_from(sides).map_err(|_| ExperimentError::Setting {
        problem: format!(
            "setting `{name}` is three numbers, along x, y and z, e.g. [96, 96, 48]; got {sides:?}"
        ),
    })
}

fn written(sides: [u32; 3]) -> String {
    sides.map(|it| it.to_string()).join("x")
}

impl VolumeSettings {
    fn spec(&self) -> Result<PhantomSpec, ExperimentError> {
        Ok(PhantomSpec {
            count: self.volumes.into(),
            size: three("size", &self.size)?,
            format: self.format,
            layout: PhantomLayout::Folders,
            seed: self.seed,
            ..PhantomSpec::default()
        })
    }

    fn batches(&self, batch: u32, workers: u32) -> u32 {
        self.samples.div_ceil(batch.max(1)).max(workers + 2)
    }

    /// The most samples of any point.
    fn most_samples(&self) -> u64 {
        let all = self.batch_sizes.iter().flat_map(|batch| {
            let of = |workers: &u32| u64::from(*batch) * u64::from(self.batches(*batch, *workers));
            self.workers.iter().map(of)
        });
        all.max().unwrap_or(1)
    }

    /// Bytes of a patch, float32, and of its mask, int16.
    fn patch_bytes(&self) -> u64 {
        6 * self.patch.iter().map(|side| u64::from(*side)).product::<u64>()
    }
}

struct Study {
    settings: VolumeSettings,
    are_demanded: bool,
    loaders: Loaders,
    cases: Cases,
    /// Where feedline keeps the restart points of gzip files.
    tables: std::path::PathBuf,
    notes: Vec<String>,
}

pub(super) fn build(
    given: &SettingsTable,
    quick: bool,
) -> Result<Box<dyn Experiment>, ExperimentError> {
    let settings: VolumeSettings = settings::read(given, quick)?;
    let are_demanded = given.contains_key("contestants");
    let (loaders, cases) = (Loaders::default(), Cases::default());
    let (tables, notes) = (std::path::PathBuf::new(), Vec::new());
    Ok(Box::new(Study { settings, are_demanded, loaders, cases, tables, notes }))
}

impl Study {
    /// Patches at random places, or from the middle, where all loaders must find the same.
    fn workload(&self, place: &str) -> Value {
        let [x, y, z] = [0, 1, 2].map(|axis| self.settings.patch.get(axis).copied().unwrap_or(1));
        json!({
            "kind": "volumes",
            "cases": self.cases.list,
            "patch": [z, y, x],
            "place": place,
            "seed": self.settings.seed,
            "tables": self.tables,
        })
    }

    fn job(&self, contestant: &str, workers: u32, batch_size: u32) -> LoadRequest {
        let VolumeSettings { prefetch, step_s, .. } = self.settings;
        LoadRequest {
            contestant: contestant.into(),
            workload: self.workload("random"),
            workers,
            prefetch,
            batch_size,
            batches: self.settings.batches(batch_size, workers),
            step_s,
            trace: TRACED,
            pin_memory: false,
            model: None,
        }
    }

    /// Each of the plain readers has its format: the other one is left out, or refused if it was asked for.
    fn keep_readers(&mut self) -> Result<(), ExperimentError> {
        let reader = self.cases.plain_reader();
        let cannot = |name: &String| PLAIN_READERS.contains(&name.as_str()) && name != reader;
        let contestants = &mut self.settings.contestants;
        match contestants.iter().find(|it| cannot(it)).filter(|_| self.are_demanded) {
            Some(name) => {
                let why = format!("it does not read these files; {reader} does");
                Err(ExperimentError::Absent { name: name.clone(), why })
            }
            None => {
                contestants.retain(|it| !cannot(it));
                Ok(())
            }
        }
    }

    /// Reads everything once with feedline, which then knows the restart points of gzip files, and says what that
    /// cost: it is part of a first epoch and of no other.
    fn first_pass(&mut self, session: &mut Session<'_>) -> Result<(), ExperimentError> {
        const NAME: &str = "feedline";
        if !self.loaders.names.iter().any(|it| it == NAME) {
            return Ok(());
        }
        let count = self.cases.list.len() as u32;
        session.tell(SessionEvent::Prepares { what: "first pass", done: 0, of: 1 });
        // What an earlier run left would make it look cheaper.
        let _ = std::fs::remove_dir_all(&self.tables);
        let job = LoadRequest { batches: count, trace: 0, ..self.job(NAME, 1, 1) };
        let run = self.loaders.measure(&Point::new(), 0, &job, session)?;
        let each = units::time(run.seconds / f64::from(count.max(1)));
        self.notes.push(format!(
            "feedline's first pass over the files, by one worker and before all runs, took {each} for each; in it \
             the restart points of gzip files are found, which later passes use"
        ));
        Ok(())
    }
}

impl Experiment for Study {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), ExperimentError> {
        self.cases = match session.data.clone() {
            Some(folder) => Cases::find(&folder)?,
            None => Cases::make(&self.settings.spec()?, session)?,
        };
        let most = usize::try_from(self.settings.most_samples()).unwrap_or(usize::MAX);
        self.cases.list.truncate(most);
        self.keep_readers()?;
        self.loaders = Loaders::start(&self.settings.contestants, self.are_demanded, session)?;
        self.tables = session.cache.join("volume-tables");
        self.settings.cache.prepare_files(&self.cases.files());
        self.cases.settle();
        self.first_pass(session)
    }

    fn plan(&self) -> Design {
        let available = kernel::available_bytes();
        let mut points = Vec::new();
        for batch in &self.settings.batch_sizes {
            for workers in &self.settings.workers {
                for contestant in &self.loaders.names {
                    let point = Point::new()
                        .with("contestants", contestant.as_str())
                        .with("batch", *batch)
                        .with("workers", *workers);
                    let needed = memory::needed(&memory::Need {
                        contestant,
                        workers: (*workers).into(),
                        prefetch: self.settings.prefetch.into(),
                        batches: self.settings.batches(*batch, *workers).into(),
                        batch_bytes: u64::from(*batch) * self.settings.patch_bytes(),
                        making_bytes: self.cases.whole_bytes,
                    });
                    let obstacle = available.filter(|it| needed > it / 10 * 9).map(|it| {
                        let there = units::bytes(it as f64);
                        (format!("more memory than there is ({there} available)"), needed)
                    });
                    points.push(PlannedPoint { point, obstacle });
                }
            }
        }
        let mut notes = self.loaders.notes.clone();
        notes.extend(self.notes.iter().cloned());
        let VolumeSettings { volumes, patch, seed, format, .. } = &self.settings;
        let patch = patch.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
        if self.cases.are_made {
            let size = self.settings.spec().map(|it| written(it.size)).unwrap_or_default();
            let format = format.name();
            notes.push(format!("{volumes} volumes of {size} ({format}) made from seed {seed}"));
        }
        Design {
            title: "Workers and batch size for segmentation".into(),
            question: format!(
                "Samples are random patches of {patch} voxels of CT volumes, z-scored, with their masks. Which \
                 number of workers and which batch size load them fastest, and what do they cost?"
            ),
            axes: vec![
                Axis::new("contestants", "loader"),
                Axis::new("batch", "batch"),
                Axis::new("workers", "workers"),
            ],
            sides: "contestants",
            unit: "patches".into(),
            rounds: self.settings.rounds,
            page_cache: self.settings.cache.words().into(),
            settings: json!(self.settings),
            points,
            versions: self.loaders.versions.clone(),
            notes,
        }
    }

    fn check(
        &mut self,
        session: &mut Session<'_>,
        is_known: &dyn Fn(&str, &str) -> bool,
    ) -> Result<Vec<Check>, ExperimentError> {
        let count = u32::try_from(self.cases.list.len()).unwrap_or(COMPARED).min(COMPARED);
        let job = |name: &String| LoadRequest {
            workload: self.workload("center"),
            batches: count.div_ceil(2),
            ..self.job(name, 2, 2)
        };
        let jobs: Vec<LoadRequest> = self.loaders.names.iter().map(job).collect();
        let data = "patches from the middle";
        self.loaders.compare_outputs(data, Some(PATCHES_APART), &jobs, session, is_known)
    }

    fn measure(
        &mut self,
        point: &Point,
        round: u32,
        session: &mut Session<'_>,
    ) -> Result<Measurement, ExperimentError> {
        let count = |axis| point.number(axis).unwrap_or_default() as u32;
        let mut job = self.job(&point.text("contestants"), count("workers"), count("batch"));
        job.trace = if round == 1 { TRACED } else { 0 };
        self.settings.cache.files_before_run(&self.cases.files());
        self.loaders.measure(point, round, &job, session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(key: &str, value: toml::Value) -> String {
        let given = SettingsTable::from_iter([(key.to_owned(), value)]);
        build(&given, true).err().expect("refused").to_string()
    }

    #[test]
    fn sizes_that_cannot_be_are_refused_by_name() {
        let sides =
            |sides: &[i64]| toml::Value::Array(sides.iter().map(|it| (*it).into()).collect());
        assert!(refused("patch", sides(&[96, 96])).contains("`patch` is three numbers"));
        assert!(
            refused("patch", sides(&[96, 96, 65]))
                .contains("more than `size`, which is 128x128x64")
        );
        assert!(
            refused("size", sides(&[128, 0, 64])).contains("`size` must be from 1 to 2048, got 0")
        );
        assert!(refused("batch_sizes", sides(&[])).contains("`batch_sizes` is empty"));
        assert!(refused("format", "dicom".into()).contains("dicom"));
    }

    #[test]
    fn every_worker_gets_a_batch_and_all_settings_the_same_patches_where_they_can() {
        let settings = VolumeSettings::full();
        for workers in &settings.workers {
            for batch in &settings.batch_sizes {
                let batches = settings.batches(*batch, *workers);
                assert!(batches >= workers + 2);
                assert!(batches * batch >= settings.samples);
            }
        }
        assert_eq!(settings.most_samples(), 260);
    }
}
