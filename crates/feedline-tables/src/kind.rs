//! What the values of a column are to a batch; the table is in the crate's documentation.

use arrow_schema::DataType;
use feedline_core::{DType, Field, Ragged};

/// What a value of a column is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// Numbers of one shape; axes that vary are `None`, a scalar has none.
    Numbers {
        dtype: DType,
        axes: Vec<Option<usize>>,
    },
    Text,
    Bytes,
    /// A struct of an image's bytes and its path.
    Picture,
}

impl ValueKind {
    /// What values of an Arrow type are; `None` where batches have no form for them.
    pub(crate) fn of(kind: &DataType) -> Option<ValueKind> {
        Some(match kind {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ValueKind::Text,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => ValueKind::Bytes,
            DataType::Dictionary(_, values) => match ValueKind::of(values)? {
                ValueKind::Picture => return None,
                values => values,
            },
            DataType::Struct(children) => {
                let is = |name: &str, kind: ValueKind| {
                    children.iter().any(|child| {
                        child.name() == name
                            && ValueKind::of(child.data_type()) == Some(kind.clone())
                    })
                };
                let picture = children.len() == 2
                    && is("bytes", ValueKind::Bytes)
                    && is("path", ValueKind::Text);
                return picture.then_some(ValueKind::Picture);
            }
            DataType::List(item) | DataType::LargeList(item) => {
                ValueKind::of(item.data_type())?.within(None)?
            }
            DataType::FixedSizeList(item, length) => {
                ValueKind::of(item.data_type())?.within(Some(usize::try_from(*length).ok()?))?
            }
            number => ValueKind::Numbers { dtype: number_of(number)?, axes: Vec::new() },
        })
    }

    /// A list of such values.
    fn within(self, length: Option<usize>) -> Option<ValueKind> {
        let ValueKind::Numbers { dtype, mut axes } = self else { return None };
        axes.insert(0, length);
        Some(ValueKind::Numbers { dtype, axes })
    }

    /// The shape of each value, if all have the same.
    pub(crate) fn fixed(&self) -> Option<(DType, Vec<usize>)> {
        let ValueKind::Numbers { dtype, axes } = self else { return None };
        Some((*dtype, axes.iter().copied().collect::<Option<_>>()?))
    }

    /// Bytes of a value, if all have as many.
    pub(crate) fn width(&self) -> Option<usize> {
        let (dtype, shape) = self.fixed()?;
        shape.iter().try_fold(dtype.size(), |bytes, axis| bytes.checked_mul(*axis))
    }

    /// The field of such values.
    pub(crate) fn field(&self, name: &str, ragged: &Ragged) -> Field {
        if let Some((dtype, shape)) = self.fixed() {
            return Field::fixed(name, dtype, shape);
        }
        match self {
            ValueKind::Numbers { dtype, axes } => {
                Field::ragged(name, *dtype, axes.clone(), ragged.clone())
            }
            ValueKind::Text => Field::text(name),
            ValueKind::Bytes | ValueKind::Picture => Field::bytes(name),
        }
    }
}

fn number_of(kind: &DataType) -> Option<DType> {
    Some(match kind {
        DataType::Boolean => DType::Bool,
        DataType::Int8 => DType::I8,
        DataType::Int16 => DType::I16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => DType::I32,
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => DType::I64,
        DataType::UInt8 => DType::U8,
        DataType::UInt16 => DType::U16,
        DataType::UInt32 => DType::U32,
        DataType::UInt64 => DType::U64,
        DataType::Float16 => DType::F16,
        DataType::Float32 => DType::F32,
        DataType::Float64
        | DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _) => DType::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::Field as ArrowField;

    use super::*;

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(ArrowField::new("item", item, true)))
    }

    #[test]
    fn lists_of_numbers_are_arrays_and_lists_of_text_are_refused() {
        let fixed =
            DataType::FixedSizeList(Arc::new(ArrowField::new("item", DataType::Float32, true)), 3);
        let kind = ValueKind::of(&list(fixed.clone())).unwrap();
        assert_eq!(kind, ValueKind::Numbers { dtype: DType::F32, axes: vec![None, Some(3)] });
        assert_eq!(ValueKind::of(&fixed).unwrap().width(), Some(12));
        assert_eq!(ValueKind::of(&list(DataType::Utf8)), None);
        assert_eq!(ValueKind::of(&DataType::Null), None);
    }

    #[test]
    fn a_struct_of_bytes_and_path_is_a_picture_and_no_other_is() {
        let child = |name: &str, kind: DataType| ArrowField::new(name, kind, true);
        let of = |children: Vec<ArrowField>| ValueKind::of(&DataType::Struct(children.into()));
        let (bytes, path) = (child("bytes", DataType::Binary), child("path", DataType::Utf8));
        assert_eq!(of(vec![bytes.clone(), path.clone()]), Some(ValueKind::Picture));
        assert_eq!(of(vec![bytes.clone()]), None);
        assert_eq!(of(vec![bytes, child("path", DataType::Int64)]), None);
    }
}
