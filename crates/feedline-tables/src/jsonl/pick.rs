//! Values of a line, by their paths: what no path leads to is passed over.

use std::borrow::Cow;
use std::fmt;

use feedline_core::{Cause, DType};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::columns::{NullValue, element_of};

/// Paths, step by step.
#[derive(Debug, Default)]
pub(super) struct PathTree {
    /// Which columns are the value here.
    columns: Vec<usize>,
    /// Steps into an object, or by number into a list.
    steps: Vec<(String, PathTree)>,
}

impl PathTree {
    pub(super) fn of(paths: &[Vec<String>]) -> PathTree {
        let mut tree = PathTree::default();
        for (column, path) in paths.iter().enumerate() {
            tree.add(path, column);
        }
        tree
    }

    fn add(&mut self, path: &[String], column: usize) {
        let Some((step, rest)) = path.split_first() else {
            self.columns.push(column);
            return;
        };
        let place = self.steps.iter().position(|(name, _)| name == step);
        let place = place.unwrap_or_else(|| {
            self.steps.push((step.clone(), PathTree::default()));
            self.steps.len() - 1
        });
        self.steps[place].1.add(rest, column);
    }

    fn step(&self, name: &str) -> Option<&PathTree> {
        self.steps.iter().find(|(step, _)| step == name).map(|(_, tree)| tree)
    }
}

/// The steps of a path: `a.b[0]` is the same as `a.b.0`.
pub(super) fn steps(path: &str) -> Vec<String> {
    let step = |step: &str| step.strip_suffix(']').unwrap_or(step).to_string();
    path.split(['.', '[']).map(step).collect()
}

/// A value of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum JsonCell<'a> {
    /// Null, or not there.
    #[default]
    Null,
    Number(JsonNumber),
    Text(Cow<'a, str>),
    /// Numbers; `None` stands for null.
    List(Vec<Option<JsonNumber>>),
    /// What has no form in a batch.
    Other(&'static str),
}

#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum JsonNumber {
    Bool(bool),
    Integer(i128),
    Float(f64),
}

impl JsonNumber {
    pub(super) fn write(self, dtype: DType, out: &mut Vec<u8>) -> Result<(), String> {
        let value = match (self, dtype) {
            (JsonNumber::Bool(bit), DType::Bool) => NullValue::Integer(i128::from(bit)),
            (JsonNumber::Bool(bit), _) => return Err(format!("holds {bit}, which is no {dtype}")),
            (JsonNumber::Integer(number), DType::Bool) => {
                return Err(format!("holds {number}, which is no bool"));
            }
            (JsonNumber::Integer(number), _) => NullValue::Integer(number),
            (JsonNumber::Float(number), DType::F16 | DType::F32 | DType::F64) => {
                NullValue::Number(number)
            }
            (JsonNumber::Float(number), _) => {
                let beyond = number.abs() >= 2f64.powi(63);
                let what = if beyond { "beyond" } else { "no" };
                return Err(format!("holds {number:?}, which is {what} {dtype}"));
            }
        };
        let bytes = element_of(dtype, &value).map_err(|_| match self {
            JsonNumber::Integer(number) => format!("holds {number}, which is beyond {dtype}"),
            JsonNumber::Float(number) => format!("holds {number:?}, which is beyond {dtype}"),
            JsonNumber::Bool(_) => format!("holds what is no {dtype}"),
        })?;
        out.extend_from_slice(&bytes);
        Ok(())
    }
}

/// Takes those values out of a line that a tree of paths names.
struct Pick<'t, 'o, 'de> {
    tree: &'t PathTree,
    out: &'o mut [JsonCell<'de>],
}

impl<'de> Pick<'_, '_, 'de> {
    fn put(self, cell: JsonCell<'de>) {
        for column in &self.tree.columns {
            self.out[*column] = cell.clone();
        }
    }
}

impl<'de> DeserializeSeed<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.put(JsonCell::Null);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.put(JsonCell::Number(JsonNumber::Bool(value)));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.put(JsonCell::Number(JsonNumber::Integer(i128::from(value))));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.put(JsonCell::Number(JsonNumber::Integer(i128::from(value))));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.put(JsonCell::Number(JsonNumber::Float(value)));
        Ok(())
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<(), E> {
        self.put(JsonCell::Text(Cow::Borrowed(value)));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.put(JsonCell::Text(Cow::Owned(value.to_string())));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Pick { tree, out } = self;
        for column in &tree.columns {
            out[*column] = JsonCell::Other("an object");
        }
        while let Some(step) = map.next_key_seed(StepSeed(tree))? {
            match step {
                Some(tree) => map.next_value_seed(Pick { tree, out })?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Pick { tree, out } = self;
        if tree.columns.is_empty() {
            let mut place = 0usize;
            loop {
                let step =
                    (!tree.steps.is_empty()).then(|| tree.step(&place.to_string())).flatten();
                let more = match step {
                    Some(tree) => list.next_element_seed(Pick { tree, out: &mut *out })?.is_some(),
                    None => list.next_element::<IgnoredAny>()?.is_some(),
                };
                if !more {
                    return Ok(());
                }
                place += 1;
            }
        }
        let mut numbers = Vec::new();
        let mut wrong = None;
        // An item may also be wanted on its own.
        while let Some(item) = list.next_element_seed(ItemSeed)? {
            if let Some(tree) = tree.step(&numbers.len().to_string()) {
                for column in &tree.columns {
                    out[*column] = item.clone();
                }
            }
            match item {
                JsonCell::Null => numbers.push(None),
                JsonCell::Number(number) => numbers.push(Some(number)),
                JsonCell::Text(_) => {
                    wrong = Some("a list of texts");
                    numbers.push(None);
                }
                _ => {
                    wrong = Some("a list of lists or objects");
                    numbers.push(None);
                }
            }
        }
        let cell = wrong.map_or(JsonCell::List(numbers), JsonCell::Other);
        for column in &tree.columns {
            out[*column] = cell.clone();
        }
        Ok(())
    }
}

/// Finds the step that a key is.
struct StepSeed<'t>(&'t PathTree);

impl<'de, 't> DeserializeSeed<'de> for StepSeed<'t> {
    type Value = Option<&'t PathTree>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'t> Visitor<'_> for StepSeed<'t> {
    type Value = Option<&'t PathTree>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.step(key))
    }
}

/// A single value of a list.
struct ItemSeed;

impl<'de> DeserializeSeed<'de> for ItemSeed {
    type Value = JsonCell<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let mut tree = PathTree::default();
        tree.columns.push(0);
        let mut out = [JsonCell::Null];
        deserializer.deserialize_any(Inner(Pick { tree: &tree, out: &mut out }))?;
        let [cell] = out;
        Ok(cell)
    }
}

/// A value within a list: lists and objects in it are passed over.
struct Inner<'t, 'o, 'de>(Pick<'t, 'o, 'de>);

impl<'de> Visitor<'de> for Inner<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.0.visit_unit()
    }
    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.0.visit_bool(value)
    }
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.0.visit_i64(value)
    }
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.0.visit_u64(value)
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.0.visit_f64(value)
    }
    fn visit_borrowed_str<E: serde::de::Error>(self, value: &'de str) -> Result<(), E> {
        self.0.visit_borrowed_str(value)
    }
    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.0.visit_str(value)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.0.put(JsonCell::Other("an object"));
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        self.0.put(JsonCell::Other("a list"));
        Ok(())
    }
}

/// Takes a line apart.
pub(super) fn pick<'a>(
    line: &'a [u8],
    tree: &PathTree,
    out: &mut [JsonCell<'a>],
) -> Result<(), Cause> {
    struct Object<'t, 'o, 'de>(Pick<'t, 'o, 'de>);
    impl<'de> DeserializeSeed<'de> for Object<'_, '_, 'de> {
        type Value = ();
        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
            deserializer.deserialize_map(self)
        }
    }
    impl<'de> Visitor<'de> for Object<'_, '_, 'de> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
            self.0.visit_map(map)
        }
    }
    // serde_json counts lines; within one line, columns say enough.
    let wrong = |error: serde_json::Error| {
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or(&text).to_string();
        format!("the line is no JSON object, or was cut off: {text} (column {})", error.column())
    };
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    Object(Pick { tree, out }).deserialize(&mut deserializer).map_err(wrong)?;
    deserializer.end().map_err(wrong)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_the_nearest_ones_to_what_is_written() {
        let tree = PathTree::of(&[vec!["x".to_string()]]);
        // Bits all over the range, by a multiplier of Knuth's.
        let bits = (1..2000u64).map(|i| i.wrapping_mul(6_364_136_223_846_793_005));
        for number in bits.map(f64::from_bits).filter(|number| number.is_finite()) {
            let line = format!("{{\"x\": {number:e}}}");
            let mut cells = [JsonCell::Null];
            pick(line.as_bytes(), &tree, &mut cells).unwrap();
            assert_eq!(cells[0], JsonCell::Number(JsonNumber::Float(number)), "{line}");
        }
    }
}
