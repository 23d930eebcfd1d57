//! A point of an experiment: one level of each thing that it varies.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One level of one axis.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// A count.
    Whole(u64),
    /// A quantity.
    Number(f64),
    /// A name.
    Text(String),
}

impl Level {
    /// The level as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

impl From<u32> for Level {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<u64> for Level {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Level {
    /// Whole numbers become counts, so that `2` and `2.0` are one level.
    fn from(value: f64) -> Self {
        let is_whole = value >= 0.0 && value.fract() == 0.0 && value < 9e15;
        if is_whole { Self::Whole(value as u64) } else { Self::Number(value) }
    }
}

impl From<&str> for Level {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<String> for Level {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// One level of each axis.
#[derive(Clone, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Point(BTreeMap<String, Level>);

impl Point {
    /// A point without axes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The point at a level of one more axis.
    pub fn with(mut self, axis: impl Into<String>, level: impl Into<Level>) -> Self {
        self.0.insert(axis.into(), level.into());
        self
    }

    /// The point without an axis: what remains equal along it.
    pub fn without(mut self, axis: &str) -> Self {
        self.0.remove(axis);
        self
    }

    /// Its level on an axis.
    pub fn get(&self, axis: &str) -> Option<&Level> {
        self.0.get(axis)
    }

    /// Its level on an axis, as a number.
    pub fn number(&self, axis: &str) -> Option<f64> {
        self.get(axis).and_then(Level::number)
    }

    /// Its level on an axis, as text; empty where it has none.
    pub fn text(&self, axis: &str) -> String {
        self.get(axis).map(ToString::to_string).unwrap_or_default()
    }

    /// Whether it is at all of these levels.
    pub fn is_at(&self, levels: &[(&str, &Level)]) -> bool {
        levels.iter().all(|(axis, level)| self.get(axis) == Some(level))
    }

    /// Its axes and levels.
    pub fn levels(&self) -> impl Iterator<Item = (&str, &Level)> {
        self.0.iter().map(|(axis, level)| (axis.as_str(), level))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (axis, level)) in self.0.iter().enumerate() {
            write!(f, "{}{axis}={level}", if place == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
