//! JSON lines: an object per line, its values by path.
//!
//! A file is gone through once, to find where lines begin; what was found is [kept](crate::rows). A line is read when it is wanted,
//! and of its values only those that are asked for are looked at.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use feedline_core::{Cause, DType, Dataset, Field, Ragged, Sample, SampleIndex};
use feedline_sources::Watch;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::TableError;
use crate::cells::{CellFault, Filling};
use crate::columns::{NullValue, TableColumn, element_of, fields};
use crate::kind::ValueKind;
use crate::open_file::OpenFile;
use crate::rows::{RowFile, RowFiles, RowOptions, RowSyntax};
use crate::typed::{SAMPLED_BYTES, SAMPLED_ROWS, SeenTypes, kind_of};

/// How JSON lines become samples.
#[derive(Clone, Debug)]
pub struct JsonOptions {
    /// Paths of the values to read, such as `user.name` or `scores.0`; all that the first lines have, if nothing is said.
    pub fields: Option<Vec<String>>,
    /// Types by path: a dtype's name, `text`, or `list[…]` of a dtype. Those of others are taken from the first lines.
    pub types: HashMap<String, String>,
    /// What stands for values that are null or missing, by path. Without it they are NaN for floats, and an error of their line
    /// for others.
    pub nulls: HashMap<String, NullValue>,
    /// Paths that get a field `<name>_is_null` beside them.
    pub null_flags: Vec<String>,
    /// How lists of different lengths share a batch.
    pub ragged: Ragged,
    /// Where what was found is kept, and how long lines may be.
    pub rows: RowOptions,
}

impl Default for JsonOptions {
    fn default() -> JsonOptions {
        JsonOptions {
            fields: None,
            types: HashMap::new(),
            nulls: HashMap::new(),
            null_flags: Vec::new(),
            ragged: Ragged::PadToLongest { fill: 0.0 },
            rows: RowOptions::default(),
        }
    }
}

/// JSON lines as a dataset: sample i is line i, with a field per path.
pub struct JsonLines {
    columns: Arc<[TableColumn]>,
    /// The steps to each column.
    paths: Vec<Vec<String>>,
    rows: Arc<RowFiles>,
    tree: PathTree,
    ragged: Ragged,
}

/// Paths, step by step.
#[derive(Debug, Default)]
struct PathTree {
    /// Which columns are the value here.
    columns: Vec<usize>,
    /// Steps into an object, or by number into a list.
    steps: Vec<(String, PathTree)>,
}

impl PathTree {
    fn of(paths: &[Vec<String>]) -> PathTree {
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
fn steps(path: &str) -> Vec<String> {
    let step = |step: &str| step.strip_suffix(']').unwrap_or(step).to_string();
    path.split(['.', '[']).map(step).collect()
}

/// A value of a line.
#[derive(Clone, Debug, Default, PartialEq)]
enum JsonCell<'a> {
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
enum JsonNumber {
    Bool(bool),
    Integer(i128),
    Float(f64),
}

impl JsonNumber {
    fn write(self, dtype: DType, out: &mut Vec<u8>) -> Result<(), String> {
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
            _ => format!("holds what is no {dtype}"),
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
fn pick<'a>(line: &'a [u8], tree: &PathTree, out: &mut [JsonCell<'a>]) -> Result<(), Cause> {
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

/// Paths that lines have, and what their values may be, in the order of their first coming.
#[derive(Default)]
struct SeenPaths {
    found: Vec<(Vec<String>, SeenTypes, SeenTypes)>,
    places: HashMap<Vec<String>, usize>,
}

/// Notes the values of a line.
struct See<'s> {
    path: Vec<String>,
    seen: &'s mut SeenPaths,
    /// Whether it is an item of the list that the path leads to.
    item: bool,
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

/// Opens files of JSON lines, one after the other.
pub fn jsonl(
    paths: &[PathBuf],
    options: &JsonOptions,
    watch: Watch<'_>,
) -> Result<JsonLines, TableError> {
    if paths.is_empty() {
        return Err(TableError::NoFiles);
    }
    let syntax = RowSyntax { quoted: None, max_open: 0 };
    let mut files = Vec::new();
    for path in paths {
        let file = OpenFile::open(path)?;
        let start = file.after_byte_order_mark();
        files.push(RowFile::open(file, (start, 1), &syntax, &options.rows, watch)?);
    }
    let (columns, paths) = chosen(&files, options)?;
    let (tree, ragged) = (PathTree::of(&paths), options.ragged.clone());
    let rows = Arc::new(RowFiles::new(files, options.rows.max_bytes));
    Ok(JsonLines { columns: columns.into(), paths, rows, tree, ragged })
}

/// The columns that were asked for, and the steps to each.
type ColumnPaths = (Vec<TableColumn>, Vec<Vec<String>>);

fn chosen(files: &[RowFile], options: &JsonOptions) -> Result<ColumnPaths, TableError> {
    let mut seen = SeenPaths::default();
    let (mut lines, mut bytes, mut line) = (0, 0, Vec::new());
    'files: for file in files {
        for row in 0..file.rows() {
            if lines >= SAMPLED_ROWS || bytes > SAMPLED_BYTES {
                break 'files;
            }
            line.clear();
            lines += 1;
            // What is wrong with a line is said when it is wanted.
            if file.read(row, options.rows.max_bytes, &mut line).is_ok() {
                bytes += line.len();
                let mut deserializer = serde_json::Deserializer::from_slice(&line);
                let see = See { path: Vec::new(), seen: &mut seen, item: false };
                let _ = see.deserialize(&mut deserializer);
            }
        }
    }
    let of = || match files {
        [file] => format!("`{}`", file.path().display()),
        files => format!("each of {} files", files.len()),
    };
    let names: Vec<String> = match &options.fields {
        Some(names) => names.clone(),
        None => {
            let paths = seen.found.iter().filter(|(path, _, _)| !path.is_empty());
            paths.map(|(path, _, _)| path.join(".")).collect()
        }
    };
    if names.is_empty() {
        return Err(TableError::NoColumns { of: of() });
    }
    let set = options.types.keys().chain(options.nulls.keys()).chain(&options.null_flags);
    if let Some(unknown) = set.into_iter().find(|name| !names.contains(name)) {
        let there = names.join(", ");
        return Err(TableError::NoSuchColumn { of: of(), column: unknown.clone(), there });
    }
    // Keys may have dots in them; a path that lines have is what they have.
    let path = |name: &String| {
        let there = seen.found.iter().find(|(path, _, _)| path.join(".") == *name);
        there.map_or_else(|| steps(name), |(path, _, _)| path.clone())
    };
    let paths: Vec<Vec<String>> = names.iter().map(path).collect();
    let column = |(name, path): (&String, &Vec<String>)| {
        let kind = match kind_of(name, &options.types, true)? {
            Some(kind) => kind,
            None => seen_kind(&seen, path).ok_or_else(|| {
                match seen.places.get(path) {
                    Some(_) => TableError::NoForm {
                        of: of(),
                        column: name.clone(),
                        kind: "a list of texts, lists or objects, or values of several types".into(),
                    },
                    None => TableError::Setting {
                        setting: "fields",
                        column: name.clone(),
                        why: format!(
                            "none of the first {lines} lines has it; say what it is, as in types={{{name:?}: \"float64\"}}"
                        ),
                    },
                }
            })?,
        };
        let flagged = options.null_flags.contains(name);
        TableColumn::typed(name, kind, options.nulls.get(name), flagged)
    };
    let columns = names.iter().zip(&paths).map(column).collect::<Result<_, _>>()?;
    Ok((columns, paths))
}

/// What the values of a path are, by the lines that were seen.
fn seen_kind(seen: &SeenPaths, steps: &[String]) -> Option<ValueKind> {
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

impl JsonLines {
    fn null(column: &TableColumn) -> Result<&[u8], Cause> {
        match &column.filling {
            Filling::With(value) => Ok(value),
            Filling::Refused => {
                let fault = CellFault::Null { name: column.name.clone() };
                Err(format!("field `{}` {fault}", column.name).into())
            }
        }
    }
}

impl Dataset for JsonLines {
    fn len(&self) -> u64 {
        self.rows.len()
    }

    fn fields(&self) -> Vec<Field> {
        fields(&self.columns, &self.ragged)
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        self.rows.load(index, raw)
    }

    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let mut cells = vec![JsonCell::Null; self.columns.len()];
        pick(raw, &self.tree, &mut cells)?;
        let mut value = Vec::new();
        let mut flag = self.columns.len();
        for (field, (column, cell)) in self.columns.iter().zip(&cells).enumerate() {
            let name = &column.name;
            let blame = |what: &str| -> Cause {
                format!("field `{name}` {what}; correct it, or pass another type, as in types={{{name:?}: …}}").into()
            };
            value.clear();
            match (&column.kind, cell) {
                (ValueKind::Numbers { axes, .. }, JsonCell::Null) if !axes.is_empty() => {
                    JsonLines::null(column)?;
                    sample.put_elements(field, &[0], &[])?;
                }
                (_, JsonCell::Null) => sample.put_bytes(field, JsonLines::null(column)?)?,
                (ValueKind::Numbers { dtype, axes }, JsonCell::Number(number))
                    if axes.is_empty() =>
                {
                    number.write(*dtype, &mut value).map_err(|what| blame(&what))?;
                    sample.put_bytes(field, &value)?;
                }
                (ValueKind::Numbers { dtype, axes }, JsonCell::List(numbers))
                    if !axes.is_empty() =>
                {
                    for number in numbers {
                        match (number, &column.item_filling) {
                            (Some(number), _) => {
                                number.write(*dtype, &mut value).map_err(|what| blame(&what))?;
                            }
                            (None, Filling::With(item)) => value.extend_from_slice(item),
                            (None, Filling::Refused) => {
                                let fault = CellFault::NullItem { name: name.clone() };
                                return Err(format!("field `{name}` {fault}").into());
                            }
                        }
                    }
                    sample.put_elements(field, &[numbers.len()], &value)?;
                }
                (ValueKind::Text, JsonCell::Text(text)) => {
                    sample.put_bytes(field, text.as_bytes())?;
                }
                (kind, cell) => {
                    let expected = match kind {
                        ValueKind::Numbers { dtype, axes } if axes.is_empty() => dtype.to_string(),
                        ValueKind::Numbers { dtype, .. } => format!("list of {dtype}"),
                        _ => "text".to_string(),
                    };
                    let got = match cell {
                        JsonCell::Text(text) => {
                            format!("{:?}", text.chars().take(60).collect::<String>())
                        }
                        JsonCell::Number(JsonNumber::Bool(bit)) => bit.to_string(),
                        JsonCell::Number(JsonNumber::Integer(number)) => number.to_string(),
                        JsonCell::Number(JsonNumber::Float(number)) => format!("{number:?}"),
                        JsonCell::List(_) => "a list".to_string(),
                        JsonCell::Other(what) => (*what).to_string(),
                        JsonCell::Null => "null".to_string(),
                    };
                    return Err(blame(&format!("holds {got}, which is no {expected}")));
                }
            }
            if column.flagged {
                sample.put_bytes(flag, &[u8::from(*cell == JsonCell::Null)])?;
                flag += 1;
            }
        }
        Ok(())
    }

    fn only(&self, fields: &[usize]) -> Option<Arc<dyn Dataset>> {
        let plain = |field: &usize| self.columns.get(*field).is_some_and(|column| !column.flagged);
        if fields.is_empty() || !fields.iter().all(plain) {
            return None;
        }
        let columns = fields.iter().map(|field| self.columns[*field].clone()).collect();
        let paths: Vec<_> = fields.iter().map(|field| self.paths[*field].clone()).collect();
        let (rows, ragged) = (Arc::clone(&self.rows), self.ragged.clone());
        let tree = PathTree::of(&paths);
        Some(Arc::new(JsonLines { columns, paths, rows, tree, ragged }))
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        self.rows.origin(index)
    }
}
