//! `schedulers`: which policy balances which work.
//!
//! The engine itself runs, with samples that sleep for their cost, so that balance and not the number of
//! cores is what is measured. Costs are even, log-normal (a long tail, as sizes of pictures have) or
//! bimodal (most cheap, some ten times as dear). Policies that order by cost are told it.

use std::thread;
use std::time::{Duration, Instant};

use feedline_core::{Cause, DType, Dataset, Field, Loader, PolicyKind, Sample, SampleIndex};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::curves::{Shown, bars};
use super::settings::{self, ExperimentSettings, SettingsTable, amount, in_range, whole};
use super::{Column, Design, Experiment, ExperimentError, Session, Tile, Unit, View};
use crate::chart::Chart;
use crate::results::{Axis, Cell, Level, Measurement, Point, Results, best_by, worst_by};
use crate::{Probe, SystemProbe, units};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Schedulers {
    policies: Vec<String>,
    costs: Vec<String>,
    #[serde(deserialize_with = "whole")]
    workers: u32,
    #[serde(deserialize_with = "whole")]
    samples: u32,
    #[serde(deserialize_with = "whole")]
    batch_size: u32,
    /// Mean cost of a sample in milliseconds.
    mean_ms: f64,
    seed: u64,
    #[serde(deserialize_with = "whole")]
    rounds: u32,
}

impl ExperimentSettings for Schedulers {
    fn full() -> Self {
        Self {
            policies: PolicyKind::ALL.map(|it| it.name().to_owned()).to_vec(),
            costs: ["even", "lognormal", "bimodal"].map(str::to_owned).to_vec(),
            workers: 8,
            samples: 4096,
            batch_size: 64,
            mean_ms: 4.0,
            seed: 0,
            rounds: 5,
        }
    }

    fn quick() -> Self {
        Self { workers: 4, samples: 512, batch_size: 32, mean_ms: 3.0, rounds: 3, ..Self::full() }
    }

    fn check(&self) -> Result<(), ExperimentError> {
        in_range("workers", &[self.workers], 1..=256)?;
        in_range("samples", &[self.samples], 1..=10_000_000)?;
        in_range("batch_size", &[self.batch_size], 1..=65_536)?;
        amount("mean_ms", &[self.mean_ms], 1000.0)?;
        in_range("rounds", &[self.rounds], 1..=1000)?;
        self.policies.iter().try_for_each(|name| policy(name).map(drop))?;
        self.costs.iter().try_for_each(|name| SampleCosts::named(name, self).map(drop))
    }
}

fn policy(name: &str) -> Result<PolicyKind, ExperimentError> {
    PolicyKind::from_name(name).ok_or_else(|| ExperimentError::Setting {
        problem: format!(
            "there is no policy `{name}`; there are: {}",
            PolicyKind::ALL.map(PolicyKind::name).join(", ")
        ),
    })
}

/// What each sample costs.
#[derive(Clone, Debug)]
struct SampleCosts(Vec<Duration>);

impl SampleCosts {
    fn named(name: &str, settings: &Schedulers) -> Result<Self, ExperimentError> {
        let shape: fn(f64, f64) -> f64 = match name {
            "even" => |_, _| 1.0,
            // exp(sigma * normal), sigma = 1, by the Box-Muller transform.
            "lognormal" => {
                |u, v| ((-2.0 * u.max(1e-12).ln()).sqrt() * (std::f64::consts::TAU * v).cos()).exp()
            }
            "bimodal" => |u, _| if u < 0.1 { 10.0 } else { 1.0 },
            other => {
                let problem =
                    format!("there is no cost `{other}`; there are: even, lognormal, bimodal");
                return Err(ExperimentError::Setting { problem });
            }
        };
        let mut random = crate::generate::SplitMix::new(settings.seed, 1);
        let count = settings.samples as usize;
        let raw: Vec<f64> =
            (0..count).map(|_| shape(random.unit().into(), random.unit().into())).collect();
        let scale = settings.mean_ms / 1e3 * count as f64 / raw.iter().sum::<f64>();
        Ok(Self(raw.iter().map(|it| Duration::from_secs_f64(it * scale)).collect()))
    }
}

impl Dataset for SampleCosts {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("index", DType::U64, [])]
    }

    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let index = sample.index().0;
        thread::sleep(self.0.get(index as usize).copied().unwrap_or_default());
        Ok(sample.put(0, &[index])?)
    }

    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        self.0.get(index.0 as usize).map(|it| it.as_micros() as u64)
    }
}

struct Study(Schedulers);

pub(super) fn build(
    given: &SettingsTable,
    quick: bool,
) -> Result<Box<dyn Experiment>, ExperimentError> {
    Ok(Box::new(Study(settings::read(given, quick)?)))
}

impl Experiment for Study {
    fn prepare(&mut self, _: &mut Session<'_>) -> Result<(), ExperimentError> {
        Ok(())
    }

    fn plan(&self) -> Design {
        let Schedulers { workers, samples, mean_ms, rounds, .. } = self.0;
        let mut points = Vec::new();
        for costs in &self.0.costs {
            for policy in &self.0.policies {
                points.push(
                    Point::new()
                        .with("policies", policy.as_str())
                        .with("costs", costs.as_str())
                        .into(),
                );
            }
        }
        Design {
            title: "Who does what: scheduling policies".into(),
            question: format!(
                "{samples} samples of {mean_ms} ms on average, {workers} workers: which policy keeps them all \
                 busy when costs are even, log-normal or bimodal?"
            ),
            axes: vec![Axis::new("costs", "costs"), Axis::new("policies", "policy")],
            sides: "policies",
            unit: "samples".into(),
            rounds,
            page_cache: "no files are read".into(),
            settings: json!(self.0),
            points,
            versions: Default::default(),
            notes: vec!["Samples sleep for their cost, so workers may be more than cores.".into()],
        }
    }

    fn measure(
        &mut self,
        point: &Point,
        round: u32,
        _: &mut Session<'_>,
    ) -> Result<Measurement, ExperimentError> {
        let costs = SampleCosts::named(&point.text("costs"), &self.0)?;
        let work: f64 = costs.0.iter().map(Duration::as_secs_f64).sum();
        let failed = |what: String| ExperimentError::Failed { what };
        let loader = Loader::builder(costs)
            .batch_size(self.0.batch_size.into())
            .workers(self.0.workers as usize)
            .policy(policy(&point.text("policies"))?)
            .epochs(1)
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let mut probe = SystemProbe::new();
        probe.begin();
        let began = Instant::now();
        let (mut items, mut waits_s) = (0, Vec::new());
        let mut asked = Instant::now();
        for batch in loader.epoch() {
            let batch = batch.map_err(|error| failed(error.to_string()))?;
            waits_s.push(asked.elapsed().as_secs_f64());
            items += batch.len() as u64;
            asked = Instant::now();
        }
        let seconds = began.elapsed().as_secs_f64();
        let usage = probe.end();
        let stats = loader.stats();
        let workers = f64::from(self.0.workers);
        let steals = stats.steals;
        let figures = [
            ("efficiency", stats.efficiency),
            ("imbalance", stats.imbalance),
            ("of_ideal", work / workers / seconds),
            ("steals_tried", steals.tried as f64),
            ("steals_won", steals.won as f64),
            ("jobs_stolen", steals.jobs as f64),
            ("steal_cost_s", steals.cost_ns as f64 / 1e9),
            ("first_batch_s", waits_s.first().copied().unwrap_or(0.0)),
        ];
        waits_s.truncate(256);
        Ok(Measurement {
            point: point.clone(),
            round,
            seconds,
            items,
            figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
            waits_s,
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
            Column::new("samples/s", "rate", Unit::Count).barred(),
            Column::new("of ideal", "of_ideal", Unit::Share),
            Column::new("efficiency", "efficiency", Unit::Share),
            Column::new("imbalance", "imbalance", Unit::Plain),
            Column::new("first batch", "first_batch_s", Unit::Seconds),
            Column::new("steals", "steals_won", Unit::Whole),
            Column::new("jobs stolen", "jobs_stolen", Unit::Whole),
            Column::new("stealing took", "steal_cost_s", Unit::Seconds),
            Column::new("CPU", "cpu_s", Unit::Seconds),
        ],
        ..View::default()
    };
    for costs in results.levels("costs") {
        let of = || cells.iter().filter(|cell| cell.point.get("costs") == Some(&costs));
        let (Some(best), Some(worst)) = (best_by(of(), "rate"), worst_by(of(), "rate")) else {
            continue;
        };
        let rate = |cell: &Cell<'_>| cell.median("rate").unwrap_or(0.0);
        let ideal = best.median("of_ideal").unwrap_or(0.0) * 100.0;
        view.verdict.push(format!(
            "With {costs} costs {} is fastest ({ideal:.0} % of ideal) and {} slowest, {} times as slow.",
            best.point.text("policies"),
            worst.point.text("policies"),
            units::digits(rate(best) / rate(worst))
        ));
        view.tiles.push(Tile::new(
            format!("{ideal:.0} %"),
            format!("of ideal: {}, {costs} costs", best.point.text("policies")),
        ));
    }
    view.verdict.extend(stealing(&cells));
    let charts = [
        Shown {
            key: "of_ideal",
            title: "How near to ideal",
            label: "work / (workers x time)",
            unit: Unit::Share,
        },
        Shown {
            key: "imbalance",
            title: "Load imbalance",
            label: "longest / mean busy time of a worker; 1 is perfect",
            unit: Unit::Plain,
        },
    ];
    view.charts = charts.into_iter().map(|shown| chart(results, &cells, shown)).collect();
    view
}

fn stealing(cells: &[Cell<'_>]) -> Option<String> {
    let steal = cells.iter().filter(|cell| cell.point.text("policies") == "steal");
    let dearest = best_by(steal, "steal_cost_s")?;
    let (won, cost) = (dearest.median("steals_won")?, dearest.median("steal_cost_s")?);
    Some(format!(
        "Stealing cost at most {} of all workers' time together ({} steals, {} costs).",
        units::time(cost),
        Unit::Whole.text(won),
        dearest.point.text("costs")
    ))
}

/// A group of bars for each policy, a bar for each kind of costs.
fn chart(results: &Results, cells: &[Cell<'_>], shown: Shown<'_>) -> Chart {
    let costs = results.levels("costs");
    let groups = results.levels("policies").into_iter().map(|policy| {
        let bar = |(colour, costs): (usize, &Level)| {
            let levels = [("policies", &policy), ("costs", costs)];
            let cell = cells.iter().find(|cell| cell.point.is_at(&levels))?;
            Some((colour, format!("{policy}, {costs} costs"), cell))
        };
        (policy.to_string(), costs.iter().enumerate().filter_map(bar).collect())
    });
    let legend = costs.iter().enumerate().map(|(place, it)| (place, format!("{it} costs")));
    bars(shown, legend.collect(), groups)
}
