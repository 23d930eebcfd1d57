//! Types that are given by name, or taken from the first rows.

use std::collections::HashMap;

use feedline_core::DType;

use crate::TableError;
use crate::kind::ValueKind;

/// How many rows types are taken from where they are not given.
pub(crate) const SAMPLED_ROWS: u64 = 1000;
/// And how many bytes of them.
pub(crate) const SAMPLED_BYTES: usize = 16 << 20;

/// What a name such as `float32`, `text` or `list[int64]` stands for.
pub(crate) fn kind_of(
    column: &str,
    types: &HashMap<String, String>,
    lists: bool,
) -> Result<Option<ValueKind>, TableError> {
    let Some(name) = types.get(column) else { return Ok(None) };
    let numbers = |dtype: DType, axes: Vec<Option<usize>>| ValueKind::Numbers { dtype, axes };
    let number = |name: &str| {
        let complex = [DType::C64, DType::C128, DType::Bf16];
        DType::from_name(name).filter(|dtype| !complex.contains(dtype))
    };
    let item = name.strip_prefix("list[").and_then(|rest| rest.strip_suffix(']'));
    let kind = match (name.as_str(), item.filter(|_| lists)) {
        ("text", _) => Some(ValueKind::Text),
        ("bytes", _) if !lists => Some(ValueKind::Bytes),
        (_, Some(item)) => number(item).map(|dtype| numbers(dtype, vec![None])),
        (name, None) => number(name).map(|dtype| numbers(dtype, Vec::new())),
    };
    kind.map(Some).ok_or_else(|| TableError::Setting {
        setting: "types",
        column: column.to_string(),
        why: format!(
            "there is no type `{name}`; there are bool, int8 to uint64, float16, float32, float64, text{}",
            if lists { ", and lists of numbers such as list[int64]" } else { " and bytes" }
        ),
    })
}

/// What the values of a column may be, by those that were seen.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SeenTypes {
    pub(crate) bools: bool,
    pub(crate) integers: bool,
    pub(crate) floats: bool,
    pub(crate) others: bool,
}

impl SeenTypes {
    /// The dtype that holds all of them; text where there is none, or nothing was seen.
    pub(crate) fn dtype(self) -> Option<DType> {
        match self {
            SeenTypes { others: true, .. } => None,
            SeenTypes { bools: true, integers: false, floats: false, .. } => Some(DType::Bool),
            SeenTypes { bools: true, .. } => None,
            SeenTypes { floats: true, .. } => Some(DType::F64),
            SeenTypes { integers: true, .. } => Some(DType::I64),
            _ => None,
        }
    }
}
