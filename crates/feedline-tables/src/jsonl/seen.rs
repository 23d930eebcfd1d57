//! Which paths lines have, and what their values are.

use std::collections::HashMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::kind::ValueKind;
use crate::typed::SeenTypes;

/// Paths that lines have, and what their values may be, in the order of their first coming.
#[derive(Default)]
pub(super) struct SeenPaths {
    pub(super) found: Vec<(Vec<String>, SeenTypes, SeenTypes)>,
    pub(super) places: HashMap<Vec<String>, usize>,
}

/// Notes the values of a line.
pub(super) struct See<'s> {
    pub(super) path: Vec<String>,
    pub(super) seen: &'s mut SeenPaths,
    /// Whether it is an item of the list that the path leads to.
    pub(super) item: bool,
}

/// More paths than that are no columns.
const MOST_PATHS: usize = 4096;

impl See<'_> {
    fn note(&mut self, note: impl FnOnce(&mut SeenTypes)) {
        let place = match self.seen.places.get(&self.path) {
            Some(place) => *place,
            None if self.seen.found.len() >= MOST_PATHS => return,
            None => {
                let place = self.seen.found.len();
                self.seen.places.insert(self.path.clone(), place);
                let none = SeenTypes::default();
                self.seen.found.push((self.path.clone(), none, none));
                place
            }
        };
        let (_, values, items) = &mut self.seen.found[place];
        note(if self.item { items } else { values });
    }
}

impl<'de> DeserializeSeed<'de> for See<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for See<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.note(|_| {});
        Ok(())
    }
    fn visit_bool<E>(mut self, _: bool) -> Result<(), E> {
        self.note(|seen| seen.bools = true);
        Ok(())
    }
    fn visit_i64<E>(mut self, _: i64) -> Result<(), E> {
        self.note(|seen| seen.integers = true);
        Ok(())
    }
    fn visit_u64<E>(mut self, _: u64) -> Result<(), E> {
        self.note(|seen| seen.integers = true);
        Ok(())
    }
    fn visit_f64<E>(mut self, _: f64) -> Result<(), E> {
        self.note(|seen| seen.floats = true);
        Ok(())
    }
    fn visit_str<E>(mut self, _: &str) -> Result<(), E> {
        self.note(|seen| seen.others = true);
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        if self.item {
            self.note(|seen| seen.others = true);
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        while let Some(key) = map.next_key::<String>()? {
            let mut path = self.path.clone();
            path.push(key);
            map.next_value_seed(See { path, seen: self.seen, item: false })?;
        }
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        if self.item {
            self.note(|seen| seen.others = true);
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        self.item = true;
        self.note(|_| {});
        let path = self.path.clone();
        while list
            .next_element_seed(See { path: path.clone(), seen: self.seen, item: true })?
            .is_some()
        {}
        Ok(())
    }
}

/// What the values of a path are, by the lines that were seen.
pub(super) fn seen_kind(seen: &SeenPaths, steps: &[String]) -> Option<ValueKind> {
    let numbers = |dtype, axes| Some(ValueKind::Numbers { dtype, axes });
    let none = SeenTypes::default();
    let find = |path: &[String]| seen.places.get(path).map(|place| &seen.found[*place]);
    match find(steps) {
        Some((_, values, items)) if *items != none => match (*values == none, items.dtype()) {
            (true, Some(dtype)) => numbers(dtype, vec![None]),
            _ => None,
        },
        Some((_, values, _)) if *values == none => None,
        Some((_, values, _)) => match values.dtype() {
            Some(dtype) => numbers(dtype, Vec::new()),
            // Texts and nothing else.
            None if !(values.bools || values.integers || values.floats) => Some(ValueKind::Text),
            None => None,
        },
        // An item of a list.
        None => {
            let (last, before) = steps.split_last()?;
            last.parse::<usize>().ok()?;
            let (_, _, items) = find(before)?;
            match items.dtype() {
                Some(dtype) => numbers(dtype, Vec::new()),
                None if *items == (SeenTypes { others: true, ..none }) => Some(ValueKind::Text),
                None => None,
            }
        }
    }
}
