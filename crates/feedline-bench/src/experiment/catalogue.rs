//! Which experiments there are.

use super::settings::SettingsTable;
use super::{
    Experiment, ExperimentError, View, compare, grid, schedulers, storage, text, transport,
    volumes, workers,
};
use crate::results::Results;

type Build = fn(&SettingsTable, bool) -> Result<Box<dyn Experiment>, ExperimentError>;

/// An experiment that can be asked for by name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it varies, in a line.
    pub about: &'static str,
    build: Build,
    view: fn(&Results) -> View,
}

/// All experiments, in the order in which they are listed.
pub const CATALOGUE: &[Entry] = &[
    Entry {
        name: "workers",
        about: "0 to 8 workers, 10 ms simulated delay per item: dip, gains, knee, optimum",
        build: workers::build,
        view: workers::view,
    },
    Entry {
        name: "grid",
        about: "batch size x workers x inference time x data set: throughput and waits",
        build: grid::build,
        view: grid::view,
    },
    Entry {
        name: "schedulers",
        about: "scheduling policies x even, log-normal, bimodal costs: balance and steals",
        build: schedulers::build,
        view: schedulers::view,
    },
    Entry {
        name: "transport",
        about: "threads, shared memory, pipe, queue x raw, pickle, JSON, protobuf: speed by size",
        build: transport::build,
        view: transport::view,
    },
    Entry {
        name: "storage",
        about: "sequential and random reads, small and large files, latency, by concurrency",
        build: storage::build,
        view: storage::view,
    },
    Entry {
        name: "compare",
        about: "feedline, torch's DataLoader and others on one workload, outputs checked",
        build: compare::build,
        view: compare::view,
    },
    Entry {
        name: "text",
        about: "batch size x workers x pin_memory on review sentiment: loading and training",
        build: text::build,
        view: text::view,
    },
    Entry {
        name: "volumes",
        about: "CT volumes with masks, random patches: workers x batch size, CPU, memory, best setting",
        build: volumes::build,
        view: volumes::view,
    },
];

impl Entry {
    /// The experiment with the given settings over its defaults (or over its quick ones).
    pub fn build(
        &self,
        settings: &SettingsTable,
        quick: bool,
    ) -> Result<Box<dyn Experiment>, ExperimentError> {
        (self.build)(settings, quick)
    }

    /// What a report on its results shows.
    pub fn view(&self, results: &Results) -> View {
        (self.view)(results)
    }
}

/// The experiment of the given name.
pub fn entry(name: &str) -> Result<&'static Entry, ExperimentError> {
    CATALOGUE.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let nearest = CATALOGUE
            .iter()
            .map(|entry| (distance(name, entry.name), entry.name))
            .min()
            .filter(|(distance, nearest)| *distance <= nearest.len() / 3 + 1)
            .map(|(_, nearest)| nearest);
        ExperimentError::Unknown { name: name.into(), nearest }
    })
}

/// Edits that make one word of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        let nearest = |name| match entry(name) {
            Err(ExperimentError::Unknown { nearest, .. }) => nearest,
            found => panic!("{found:?}"),
        };
        assert_eq!(nearest("worker"), Some("workers"));
        assert_eq!(nearest("wrokers"), Some("workers"));
        assert_eq!(nearest("quicksilver"), None);
    }

    #[test]
    fn every_experiment_takes_its_own_defaults() {
        for entry in CATALOGUE {
            for quick in [false, true] {
                assert!(entry.build(&SettingsTable::new(), quick).is_ok(), "{}", entry.name);
            }
            let nonsense =
                SettingsTable::from_iter([("no_such".to_owned(), toml::Value::Integer(1))]);
            let error = entry.build(&nonsense, true).err().expect("refused").to_string();
            assert!(error.contains("no_such"), "{error}");
        }
    }
}
