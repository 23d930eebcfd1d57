//! The published studies of data loading, as one command each.
//!
//! An [`Experiment`] has settings, a list of [points](crate::results::Point) and a way to measure one of
//! them. [`hold`] runs them all, round after round in changing order, and writes each result as it
//! comes; what is already there is not run again. What a report shows is drawn from the results alone
//! ([`View`]), so it can be redrawn without rerunning.
//!
//! | file | what it asks |
//! | --- | --- |
//! | `workers/` | what more workers bring |
//! | `grid/` | batch size, workers, inference time and data set together |
//! | `schedulers.rs` | which policy balances which work |
//! | `transport.rs` | what it costs to hand data over |
//! | `storage.rs` | what reading patterns cost, by concurrency |
//! | `compare/` | feedline against its peers |
//! | `text/` | batch size, workers and page-locked memory on review sentiment |
//! | `volumes/` | workers and batch size for segmentation of CT and MR |
//!
//! Loaders run in child processes ([`driver`]), so that the process tree of each is its own.

mod catalogue;
mod compare;
mod curves;
mod data;
pub(crate) mod driver;
mod effect;
mod error;
mod grid;
mod heat_map;
mod loading;
mod memory;
mod over_time;
mod scaling;
mod schedulers;
mod session;
mod settings;
mod storage;
mod text;
mod transport;
mod view;
mod volumes;
mod workers;

pub use catalogue::{CATALOGUE, Entry, entry};
pub use error::ExperimentError;
pub use session::{Session, SessionEvent, hold};
pub use settings::SettingsTable;
pub use view::{Column, ColumnSource, Tile, Unit, View};

use std::collections::BTreeMap;

use crate::results::{Axis, Check, Measurement, Point};

/// What holds for all points of an experiment.
#[derive(Clone, Debug)]
pub struct Design {
    /// Heading of the report.
    pub title: String,
    /// What it asks.
    pub question: String,
    /// What it varies.
    pub axes: Vec<Axis>,
    /// The axis whose levels are compared. Each of them runs once before the first round, to warm up.
    pub sides: &'static str,
    /// What an item is, in the plural.
    pub unit: String,
    /// Rounds; each measures every point once.
    pub rounds: u32,
    /// Whether files come from the page cache, in words.
    pub page_cache: String,
    /// All settings.
    pub settings: serde_json::Value,
    /// The points, with the reason for those that are not to be run.
    pub points: Vec<PlannedPoint>,
    /// Versions of what is compared.
    pub versions: BTreeMap<String, String>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl Design {
    /// The points that are run, in order.
    fn to_run(&self) -> Vec<&Point> {
        self.points.iter().filter(|it| it.obstacle.is_none()).map(|it| &it.point).collect()
    }

    /// The first point of each side.
    fn warm_up(&self) -> Vec<&Point> {
        let mut chosen: Vec<&Point> = Vec::new();
        for point in self.to_run() {
            if chosen.iter().all(|it| it.get(self.sides) != point.get(self.sides)) {
                chosen.push(point);
            }
        }
        chosen
    }
}

/// A point, and why it is not run if it is not.
#[derive(Clone, Debug)]
pub struct PlannedPoint {
    /// The point.
    pub point: Point,
    /// Why it is not run, and how much memory it would need.
    pub obstacle: Option<(String, u64)>,
}

impl From<Point> for PlannedPoint {
    fn from(point: Point) -> Self {
        Self { point, obstacle: None }
    }
}

/// A study: a list of points, and a way to measure each.
pub trait Experiment {
    /// Makes ready what takes time: data, child processes. Called once, before everything else.
    fn prepare(&mut self, session: &mut Session<'_>) -> Result<(), ExperimentError>;

    /// What will be measured.
    fn plan(&self) -> Design;

    /// Compares outputs, where there are several sides; called before the first measurement. A check
    /// that `is_known` names is already there.
    fn check(
        &mut self,
        session: &mut Session<'_>,
        is_known: &dyn Fn(&str, &str) -> bool,
    ) -> Result<Vec<Check>, ExperimentError> {
        let _ = (session, is_known);
        Ok(Vec::new())
    }

    /// Measures one point once.
    fn measure(
        &mut self,
        point: &Point,
        round: u32,
        session: &mut Session<'_>,
    ) -> Result<Measurement, ExperimentError>;
}
