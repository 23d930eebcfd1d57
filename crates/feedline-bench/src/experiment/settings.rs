//! Settings: defaults, a quick set, a TOML file and the command line on top of each other.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};

use super::ExperimentError;

/// Settings by name, as a TOML file or the command line gives them.
pub type SettingsTable = toml::Table;

/// Settings of an experiment.
pub(crate) trait ExperimentSettings: Serialize + DeserializeOwned {
    /// Those of the published study.
    fn full() -> Self;

    /// Those that finish in about a minute on two cores.
    fn quick() -> Self;

    /// Refuses what cannot be measured.
    fn check(&self) -> Result<(), ExperimentError>;
}

/// Lays `given` over the defaults.
pub(crate) fn read<T: ExperimentSettings>(
    given: &SettingsTable,
    quick: bool,
) -> Result<T, ExperimentError> {
    let refuse = |problem: String| ExperimentError::Setting { problem };
    let defaults = if quick { T::quick() } else { T::full() };
    let mut table =
        SettingsTable::try_from(&defaults).map_err(|error| refuse(error.to_string()))?;
    for (key, value) in given {
        table.insert(key.clone(), value.clone());
    }
    // Each setting by itself, so that a message can name it.
    for (key, value) in given {
        let mut single =
            SettingsTable::try_from(&defaults).map_err(|error| refuse(error.to_string()))?;
        single.insert(key.clone(), value.clone());
        single.try_into::<T>().map_err(|error| {
            let problem = error.message().trim_end();
            refuse(if problem.contains(&format!("`{key}`")) {
                problem.to_owned()
            } else {
                format!("setting `{key}`: {problem}")
            })
        })?;
    }
    let settings: T = table.try_into().map_err(|error| refuse(error.message().to_owned()))?;
    settings.check()?;
    Ok(settings)
}

/// A whole number, 0 or more.
pub(crate) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    to_whole(i64::deserialize(from)?)
}

/// Several whole numbers, 0 or more; a single one stands for a list of one.
pub(crate) fn wholes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        One(i64),
        Many(Vec<i64>),
    }
    let given = Given::deserialize(from)
        .map_err(|_| D::Error::custom("expected whole numbers, e.g. [0, 1, 2]"))?;
    match given {
        Given::One(value) => Ok(vec![to_whole(value)?]),
        Given::Many(values) => values.into_iter().map(to_whole).collect(),
    }
}

fn to_whole<E: serde::de::Error>(value: i64) -> Result<u32, E> {
    u32::try_from(value)
        .map_err(|_| E::custom(format!("expected a whole number, 0 or more, got {value}")))
}

/// Refuses a list without entries and values outside a range.
pub(crate) fn in_range(
    name: &str,
    values: &[u32],
    range: std::ops::RangeInclusive<u32>,
) -> Result<(), ExperimentError> {
    let refuse = |problem| Err(ExperimentError::Setting { problem });
    if values.is_empty() {
        return refuse(format!("setting `{name}` is empty; give at least one value"));
    }
    match values.iter().find(|value| !range.contains(value)) {
        Some(value) => refuse(format!(
            "setting `{name}` must be from {} to {}, got {value}",
            range.start(),
            range.end()
        )),
        None => Ok(()),
    }
}

/// Refuses numbers that are no finite amounts.
pub(crate) fn amount(name: &str, values: &[f64], most: f64) -> Result<(), ExperimentError> {
    match values.iter().find(|value| !(0.0..=most).contains(*value)) {
        Some(value) => Err(ExperimentError::Setting {
            problem: format!("setting `{name}` must be from 0 to {most}, got {value}"),
        }),
        None => Ok(()),
    }
}
