//! `storage`: what reading patterns cost, by concurrency.
//!
//! Threads read the same bytes in four ways: one large file from front to back, pieces of it at random, many
//! small files in order, and in random order; from a warm page cache, from a cold one, and with a pause
//! before each read as a network store has. A long pause needs many readers.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::curves::lines;
use super::data::{chill, files, warm};
use super::settings::{self, ExperimentSettings, SettingsTable, amount, in_range, whole, wholes};
use super::{Column, Design, Experiment, ExperimentError, Session, SessionEvent, Tile, Unit, View};
use crate::chart::{AxisKind, Chart, Ruler};
use crate::generate::SplitMix;
use crate::results::{Axis, Cell, Measurement, Point, Results, best_by};
use crate::summary::quantile;
use crate::{Probe, SystemProbe, units};

const PATTERNS: [&str; 4] =
    ["large sequential", "large random", "small sequential", "small random"];

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Storage {
    patterns: Vec<String>,
    #[serde(deserialize_with = "wholes")]
    concurrency: Vec<u32>,
    /// `warm`, `cold`.
    caches: Vec<String>,
    /// Milliseconds before each read.
    latency_ms: Vec<f64>,
    /// Bytes of a small file, and of a piece of the large one.
    #[serde(deserialize_with = "whole")]
    piece_kib: u32,
    /// Small files, and pieces of the large one.
    #[serde(deserialize_with = "whole")]
    pieces: u32,
    /// Reads at each point; fewer where each pauses.
    #[serde(deserialize_with = "whole")]
    reads: u32,
    seed: u64,
    #[serde(deserialize_with = "whole")]
    rounds: u32,
}

impl ExperimentSettings for Storage {
    fn full() -> Self {
        Self {
            patterns: PATTERNS.map(str::to_owned).to_vec(),
            concurrency: vec![1, 2, 4, 8, 16, 32],
            caches: vec!["warm".into(), "cold".into()],
            latency_ms: vec![0.0, 5.0, 20.0],
            piece_kib: 117,
            pieces: 4096,
            reads: 4096,
            seed: 0,
            rounds: 3,
        }
    }

    fn quick() -> Self {
        Self {
            concurrency: vec![1, 4, 16],
            latency_ms: vec![0.0, 5.0],
            pieces: 384,
            reads: 384,
            rounds: 2,
            ..Self::full()
        }
    }

    fn check(&self) -> Result<(), ExperimentError> {
        let refuse = |problem| Err(ExperimentError::Setting { problem });
        if let Some(it) = self.patterns.iter().find(|it| !PATTERNS.contains(&it.as_str())) {
            return refuse(format!(
                "there is no pattern `{it}`; there are: {}",
                PATTERNS.join(", ")
            ));
        }
        if let Some(it) = self.caches.iter().find(|it| !["warm", "cold"].contains(&it.as_str())) {
            return refuse(format!("there is no cache `{it}`; there are: warm, cold"));
        }
        in_range("concurrency", &self.concurrency, 1..=1024)?;
        amount("latency_ms", &self.latency_ms, 10_000.0)?;
        in_range("piece_kib", &[self.piece_kib], 1..=1 << 20)?;
        in_range("pieces", &[self.pieces], 1..=1_000_000)?;
        in_range("reads", &[self.reads], 1..=100_000_000)?;
        in_range("rounds", &[self.rounds], 1..=1000)
    }
}

struct Study {
    settings: Storage,
    large: PathBuf,
    small: Vec<PathBuf>,
}

pub(super) fn build(
    given: &SettingsTable,
    quick: bool,
) -> Result<Box<dyn Experiment>, ExperimentError> {
    let settings = settings::read(given, quick)?;
    Ok(Box::new(Study { settings, large: PathBuf::new(), small: Vec::new() }))
}

impl Study {
    fn piece_bytes(&self) -> usize {
        self.settings.piece_kib as usize * 1024
    }

    /// Makes the files, where they are not there in the right size.
    fn make(&mut self, session: &mut Session<'_>) -> Result<(), ExperimentError> {
        let name = format!("storage-{}x{}k", self.settings.pieces, self.settings.piece_kib);
        let folder = session.cache.join(name);
        let cannot = |action, path: &PathBuf, source| ExperimentError::File {
            action,
            path: path.clone(),
            source,
        };
        let parts = folder.join("small");
        fs::create_dir_all(&parts).map_err(|e| cannot("create the folder", &parts, e))?;
        self.large = folder.join("large.bin");
        let (bytes, count) = (self.piece_bytes(), self.settings.pieces as usize);
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |it| it.len() as usize);
        let mut random = SplitMix::new(self.settings.seed, 2);
        let mut piece = vec![0u8; bytes];
        let is_large_there = size(&self.large) == bytes * count;
        let mut large = match is_large_there {
            true => None,
            false => Some(File::create(&self.large).map_err(|e| cannot("create", &self.large, e))?),
        };
        for index in 0..count {
            let path = parts.join(format!("{index:06}.bin"));
            let is_there = size(&path) == bytes;
            if !is_there || large.is_some() {
                piece.chunks_mut(8).for_each(|chunk| {
                    chunk.copy_from_slice(&random.bits().to_le_bytes()[..chunk.len()]);
                });
            }
            if !is_there {
                fs::write(&path, &piece).map_err(|e| cannot("write", &path, e))?;
            }
            if let Some(file) = &mut large {
                std::io::Write::write_all(file, &piece)
                    .map_err(|e| cannot("write", &self.large, e))?;
            }
            if index % 64 == 0 {
                session.tell(SessionEvent::Prepares {
                    what: "making files",
                    done: index as u64,
                    of: count as u64,
                });
                if session.is_interrupted() {
                    return Err(ExperimentError::Interrupted);
                }
            }
        }
        self.small = files(&parts);
        self.small.truncate(count);
        Ok(())
    }

    /// One read: opens what is to be opened, and reads a piece. Returns the bytes.
    fn read(
        &self,
        pattern: &str,
        number: usize,
        order: &[usize],
        buffer: &mut Vec<u8>,
    ) -> std::io::Result<usize> {
        let index = match pattern.ends_with("random") {
            true => order[number % order.len()],
            false => number % order.len(),
        };
        if pattern.starts_with("small") {
            buffer.clear();
            return File::open(&self.small[index % self.small.len()])?.read_to_end(buffer);
        }
        buffer.resize(self.piece_bytes(), 0);
        let file = File::open(&self.large)?;
        read_at(&file, buffer, (index * self.piece_bytes()) as u64)?;
        Ok(buffer.len())
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

impl Experiment for Study {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), ExperimentError> {
        self.make(session)
    }

    fn plan(&self) -> Design {
        let it = &self.settings;
        let mut points = Vec::new();
        for cache in &it.caches {
            for latency in &it.latency_ms {
                for pattern in &it.patterns {
                    for readers in &it.concurrency {
                        let point = Point::new()
                            .with("patterns", pattern.as_str())
                            .with("caches", cache.as_str())
                            .with("latency", *latency);
                        points.push(point.with("readers", *readers).into());
                    }
                }
            }
        }
        Design {
            title: "Reading: patterns, latency and concurrency".into(),
            question: format!(
                "{} KiB pieces of one large file, or small files of that size, in order or at random: what do \
                 more readers bring, near or far from the data?",
                it.piece_kib
            ),
            axes: vec![
                Axis::new("caches", "page cache"),
                Axis::new("latency", "latency (ms)"),
                Axis::new("patterns", "pattern"),
                Axis::new("readers", "readers"),
            ],
            sides: "patterns",
            unit: "reads".into(),
            rounds: it.rounds,
            page_cache: "warm: every file was read right before; cold: files were dropped from the cache right \
                         before (posix_fadvise)"
                .into(),
            settings: json!(it),
            points,
            versions: Default::default(),
            notes: vec![
                "Latency is a pause before each read, as of a network store; it is not the network itself."
                    .into(),
            ],
        }
    }

    fn measure(
        &mut self,
        point: &Point,
        round: u32,
        _: &mut Session<'_>,
    ) -> Result<Measurement, ExperimentError> {
        let (pattern, cache) = (point.text("patterns"), point.text("caches"));
        let readers = point.number("readers").unwrap_or(1.0) as usize;
        let pause = Duration::from_secs_f64(point.number("latency").unwrap_or(0.0) / 1e3);
        // A pause of some milliseconds makes the same number of reads take minutes.
        let reads = match pause.is_zero() {
            true => self.settings.reads as usize,
            false => (self.settings.reads as usize / 4).max(readers * 4),
        };
        let mut order: Vec<usize> = (0..self.settings.pieces as usize).collect();
        let mut random = SplitMix::new(self.settings.seed, 3);
        (1..order.len()).rev().for_each(|i| order.swap(i, random.below(i as u64 + 1) as usize));
        let touched = match pattern.starts_with("small") {
            true => self.small.clone(),
            false => vec![self.large.clone()],
        };
        match cache.as_str() {
            "cold" => chill(&touched),
            _ => touched.iter().for_each(|path| warm(path)),
        }
        let next = AtomicUsize::new(0);
        let mut probe = SystemProbe::new();
        probe.begin();
        let began = Instant::now();
        let (study, order, pattern) = (&*self, &order, pattern.as_str());
        let read: std::io::Result<(u64, Vec<f64>)> = thread::scope(|scope| {
            let hands: Vec<_> = (0..readers)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut bytes, mut times, mut buffer) = (0, Vec::new(), Vec::new());
                        loop {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            if number >= reads {
                                return Ok((bytes, times));
                            }
                            let asked = Instant::now();
                            thread::sleep(pause);
                            bytes += study.read(pattern, number, order, &mut buffer)? as u64;
                            times.push(asked.elapsed().as_secs_f64());
                        }
                    })
                })
                .collect();
            let mut sum = (0, Vec::new());
            for hand in hands {
                let told: std::io::Result<(u64, Vec<f64>)> =
                    hand.join().unwrap_or_else(|_| Err(std::io::Error::other("a reader panicked")));
                let (bytes, times) = told?;
                sum.0 += bytes;
                sum.1.extend(times);
            }
            Ok(sum)
        });
        let seconds = began.elapsed().as_secs_f64();
        let usage = probe.end();
        let (bytes, mut times) = read.map_err(|source| ExperimentError::File {
            action: "read",
            path: self.large.clone(),
            source,
        })?;
        times.sort_by(f64::total_cmp);
        let at = |share| quantile(&times, share).unwrap_or(0.0);
        let figures = [("p50_s", at(0.5)), ("p99_s", at(0.99))];
        Ok(Measurement {
            point: point.clone(),
            round,
            seconds,
            items: times.len() as u64,
            bytes: Some(bytes),
            figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
            usage,
            moments: probe.take_moments(),
            ..Measurement::default()
        })
    }
}

pub(super) fn view(results: &Results) -> View {
    let cells = results.cells();
    let mut view = View {
        columns: vec![
            Column::new("bytes/s", "bytes_per_s", Unit::BytesPerSecond).barred(),
            Column::new("reads/s", "rate", Unit::Count),
            Column::new("p50", "p50_s", Unit::Seconds),
            Column::new("p99", "p99_s", Unit::Seconds),
            Column::new("from storage", "read_bytes", Unit::Bytes),
            Column::new("CPU", "cpu_s", Unit::Seconds),
        ],
        ..View::default()
    };
    for cache in results.levels("caches") {
        for latency in results.levels("latency") {
            let levels = [("caches", &cache), ("latency", &latency)];
            let of: Vec<&Cell<'_>> =
                cells.iter().filter(|cell| cell.point.is_at(&levels)).collect();
            let rate = |cell: &Cell<'_>| cell.median("bytes_per_s").unwrap_or(0.0);
            let Some(best) = best_by(of.iter().copied(), "bytes_per_s") else { continue };
            let alone = of.iter().copied().find(|cell| {
                cell.point.get("patterns") == best.point.get("patterns")
                    && cell.point.number("readers") == Some(1.0)
            });
            let times = alone.map(|alone| rate(best) / rate(alone)).unwrap_or(1.0);
            let far = match latency.number() {
                Some(0.0) => String::new(),
                _ => format!(" and {latency} ms latency"),
            };
            view.verdict.push(format!(
                "From a {cache} cache{far}, {} with {} readers is fastest: {}/s, {} times what one reader gets.",
                best.point.text("patterns"),
                best.point.text("readers"),
                units::bytes(rate(best)),
                units::digits(times)
            ));
            view.tiles.push(Tile::new(
                format!("{}/s", units::bytes(rate(best))),
                format!("{cache} cache{far}"),
            ));
            let choice = format!("{cache} cache, {latency} ms latency");
            view.charts.push(speed(results, &of).choice(choice.clone()));
            view.charts.push(slowest(results, &of).choice(choice));
        }
    }
    // One heading after the other: charts of one heading must stand together.
    view.charts.sort_by_key(|chart| chart.title == SLOWEST);
    view
}

const SLOWEST: &str = "Slow reads against readers";

fn readers() -> (Ruler, fn(&Cell<'_>) -> Option<f64>) {
    let ruler = Ruler::new(AxisKind::Steps, "readers", Unit::Plain);
    (ruler, |cell| cell.point.number("readers"))
}

fn speed(results: &Results, cells: &[&Cell<'_>]) -> Chart {
    let y = Ruler::new(AxisKind::Linear, "bytes per second", Unit::Bytes);
    let drawing = lines(results, cells, "patterns", "bytes_per_s", readers(), y);
    let caption = "Bytes per second by number of readers, medians over the rounds.";
    Chart::new("Reading speed against readers", caption, drawing)
}

fn slowest(results: &Results, cells: &[&Cell<'_>]) -> Chart {
    let y = Ruler::new(AxisKind::Log, "99th percentile", Unit::Seconds);
    let drawing = lines(results, cells, "patterns", "p99_s", readers(), y);
    let caption = "One read in a hundred takes longer than this, its latency included; medians over the rounds.";
    Chart::new(SLOWEST, caption, drawing)
}
