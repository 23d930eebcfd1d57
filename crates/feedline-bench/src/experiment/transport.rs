//! `transport`: what it costs to hand data over, by way, format and size.
//!
//! Both ends are Python, as in most loaders: threads of one process, or two processes joined by a pipe, a
//! queue or shared memory, which is feedline's own transport (`feedline-ipc`). A message is a sample: an index, a label and an array. Bytes per second are those
//! of the array; latency is half of a round trip.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::curves::lines;
use super::driver::Driver;
use super::settings::{self, ExperimentSettings, SettingsTable, amount, in_range, whole, wholes};
use super::{Column, Design, Experiment, ExperimentError, PlannedPoint, Session, Tile, Unit, View};
use crate::chart::{AxisKind, Chart, Ruler};
use crate::results::{Axis, Cell, Measurement, Point, Results, best_by, worst_by};
use crate::{Probe, SystemProbe, units};

const WAYS: [&str; 4] = ["threads", "shared memory", "pipe", "queue"];
const FORMATS: [&str; 4] = ["raw", "pickle", "JSON", "protobuf"];

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Transport {
    ways: Vec<String>,
    formats: Vec<String>,
    /// Sizes of the array in KiB.
    #[serde(deserialize_with = "wholes")]
    sizes_kib: Vec<u32>,
    /// How long each point sends, about.
    seconds: f64,
    #[serde(deserialize_with = "whole")]
    rounds: u32,
}

impl ExperimentSettings for Transport {
    fn full() -> Self {
        Self {
            ways: WAYS.map(str::to_owned).to_vec(),
            formats: FORMATS.map(str::to_owned).to_vec(),
            sizes_kib: vec![1, 16, 256, 4096, 16384],
            seconds: 1.0,
            rounds: 3,
        }
    }

    fn quick() -> Self {
        Self { sizes_kib: vec![4, 256, 4096], seconds: 0.25, rounds: 2, ..Self::full() }
    }

    fn check(&self) -> Result<(), ExperimentError> {
        let refuse = |problem| Err(ExperimentError::Setting { problem });
        if let Some(it) = self.ways.iter().find(|it| !WAYS.contains(&it.as_str())) {
            return refuse(format!("there is no way `{it}`; there are: {}", WAYS.join(", ")));
        }
        if let Some(it) = self.formats.iter().find(|it| !FORMATS.contains(&it.as_str())) {
            return refuse(format!("there is no format `{it}`; there are: {}", FORMATS.join(", ")));
        }
        in_range("sizes_kib", &self.sizes_kib, 1..=1 << 20)?;
        amount("seconds", &[self.seconds], 600.0)?;
        in_range("rounds", &[self.rounds], 1..=1000)
    }
}

struct Study {
    settings: Transport,
    driver: Option<Driver>,
    versions: std::collections::BTreeMap<String, String>,
}

pub(super) fn build(
    given: &SettingsTable,
    quick: bool,
) -> Result<Box<dyn Experiment>, ExperimentError> {
    let settings = settings::read(given, quick)?;
    Ok(Box::new(Study { settings, driver: None, versions: Default::default() }))
}

impl Experiment for Study {
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), ExperimentError> {
        let mut driver = Driver::start(&session.python, "transport")?;
        self.versions = driver.describe()?.versions;
        self.driver = Some(driver);
        Ok(())
    }

    fn plan(&self) -> Design {
        let it = &self.settings;
        let mut points: Vec<PlannedPoint> = Vec::new();
        let mut notes = Vec::new();
        let has_protobuf = self.versions.contains_key("protobuf");
        if !has_protobuf && it.formats.iter().any(|format| format == "protobuf") {
            notes.push(
                "protobuf took no part: it is not installed (`pip install protobuf`)".to_owned(),
            );
        }
        for way in &it.ways {
            for format in it.formats.iter().filter(|it| *it != "protobuf" || has_protobuf) {
                for size in &it.sizes_kib {
                    let point =
                        Point::new().with("ways", way.as_str()).with("formats", format.as_str());
                    points.push(point.with("size", *size).into());
                }
            }
        }
        Design {
            title: "Handing data over".into(),
            question:
                "How fast do samples get from a worker to the consumer, by way, format and size?"
                    .into(),
            axes: vec![
                Axis::new("ways", "way"),
                Axis::new("formats", "format"),
                Axis::new("size", "size (KiB)"),
            ],
            sides: "ways",
            unit: "messages".into(),
            rounds: it.rounds,
            page_cache: "no files are read".into(),
            settings: json!(it),
            points,
            versions: self.versions.clone(),
            notes,
        }
    }

    fn measure(
        &mut self,
        point: &Point,
        round: u32,
        session: &mut Session<'_>,
    ) -> Result<Measurement, ExperimentError> {
        #[derive(Deserialize)]
        struct TransportAnswer {
            seconds: f64,
            items: u64,
            bytes: u64,
            latency_s: f64,
        }
        let driver = match &mut self.driver {
            Some(driver) => driver,
            none => none.insert(Driver::start(&session.python, "transport")?),
        };
        let mut probe = SystemProbe::new().of(driver.id());
        probe.begin();
        let size = point.number("size").unwrap_or(1.0) * 1024.0;
        let request = json!({
            "do": "transport",
            "way": point.text("ways"),
            "format": point.text("formats"),
            "bytes": size as u64,
            "seconds": self.settings.seconds,
        });
        let answer: TransportAnswer = driver.ask(&request).inspect_err(|_| self.driver = None)?;
        let usage = probe.end();
        Ok(Measurement {
            point: point.clone(),
            round,
            seconds: answer.seconds,
            items: answer.items,
            bytes: Some(answer.bytes),
            figures: [("latency_s".to_owned(), answer.latency_s)].into(),
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
            Column::new("messages/s", "rate", Unit::Count),
            Column::new("latency", "latency_s", Unit::Seconds),
            Column::new("CPU", "cpu_s", Unit::Seconds),
        ],
        ..View::default()
    };
    let sizes = results.levels("size");
    for size in [sizes.first(), sizes.last().filter(|_| sizes.len() > 1)].into_iter().flatten() {
        let processes = || {
            let of = cells.iter().filter(|cell| cell.point.get("size") == Some(size));
            of.filter(|cell| cell.point.text("ways") != "threads")
        };
        let rate = |cell: &Cell<'_>| cell.median("bytes_per_s").unwrap_or(0.0);
        let best = best_by(processes(), "bytes_per_s");
        let worst = worst_by(processes(), "bytes_per_s");
        if let (Some(best), Some(worst)) = (best, worst) {
            let name = |cell: &Cell<'_>| {
                format!("{} with {}", cell.point.text("ways"), cell.point.text("formats"))
            };
            view.verdict.push(format!(
                "Between processes, messages of {size} KiB are fastest by {} ({}/s) and slowest by {} ({} times as \
                 slow).",
                name(best),
                units::bytes(rate(best)),
                name(worst),
                units::digits(rate(best) / rate(worst))
            ));
            view.tiles.push(Tile::new(
                format!("{}/s", units::bytes(rate(best))),
                format!("{}, {size} KiB", name(best)),
            ));
        }
    }
    for format in results.levels("formats") {
        let of: Vec<&Cell<'_>> =
            cells.iter().filter(|cell| cell.point.get("formats") == Some(&format)).collect();
        let sizes = || {
            let ruler = Ruler::new(AxisKind::Log, "size of a message", Unit::Bytes);
            (ruler, |cell: &Cell<'_>| Some(cell.point.number("size")? * 1024.0))
        };
        let y = Ruler::new(AxisKind::Log, "bytes per second", Unit::Bytes);
        let rates = lines(results, &of, "ways", "bytes_per_s", sizes(), y);
        let y = Ruler::new(AxisKind::Log, "latency", Unit::Seconds);
        let times = lines(results, &of, "ways", "latency_s", sizes(), y);
        let caption = "Bytes of the array per second, by its size; medians over the rounds.";
        view.charts
            .push(Chart::new("Throughput by size", caption, rates).choice(format.to_string()));
        let caption = "Half of a round trip, by size; medians over the rounds.";
        view.charts.push(Chart::new("Latency by size", caption, times).choice(format.to_string()));
    }
    // One heading after the other: charts of one heading must stand together.
    view.charts.sort_by_key(|chart| chart.title.starts_with("Latency"));
    view
}
