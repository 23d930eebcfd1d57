//! What a sample of pictures consists of.

use feedline_core::{DType, Field, Ragged};
use feedline_ops::image::{Dtype, Finish, Layout, Program, Size};

use super::{Pictures, Rows};

/// The shape of a finished picture.
pub(super) fn shape(finish: &Finish, size: Size) -> [usize; 3] {
    match finish.layout() {
        Layout::Chw => [finish.channels(), size.height, size.width],
        Layout::Hwc => [size.height, size.width, finish.channels()],
    }
}

fn dtype(dtype: Dtype) -> DType {
    match dtype {
        Dtype::U8 => DType::U8,
        Dtype::F16 => DType::F16,
        Dtype::Bf16 => DType::Bf16,
        Dtype::F32 => DType::F32,
    }
}

pub(super) fn image(name: &str, program: &Program) -> Field {
    let finish = program.finish();
    let dtype = dtype(finish.dtype());
    if let Some(size) = program.extent() {
        return Field::fixed(name, dtype, shape(finish, size));
    }
    let channels = Some(finish.channels());
    let shape = match finish.layout() {
        Layout::Chw => [channels, None, None],
        Layout::Hwc => [None, None, channels],
    };
    Field::ragged(name, dtype, shape, Ragged::PadToLongest { fill: 0.0 })
}

pub(super) fn mask(name: &str, program: &Program) -> Field {
    match program.extent() {
        Some(size) => Field::fixed(name, DType::U8, [size.height, size.width]),
        None => Field::ragged(name, DType::U8, [None, None], Ragged::PadToLongest { fill: 0.0 }),
    }
}

fn rows(name: &str, rows: Rows, columns: usize) -> Field {
    let ragged = |rule| Field::ragged(name, DType::F32, [None, Some(columns)], rule);
    match rows {
        Rows::Fixed(count) => Field::fixed(name, DType::F32, [count, columns]),
        Rows::Longest => ragged(Ragged::PadToLongest { fill: 0.0 }),
        Rows::Packed => ragged(Ragged::Packed),
    }
}

impl Pictures {
    /// With its fields as they are now.
    pub(super) fn declared(mut self) -> Pictures {
        let mut fields = Vec::new();
        let each = |fields: &mut Vec<Field>, name: &str, make: &dyn Fn(&str, &Program) -> Field| {
            for (i, program) in self.views.iter().enumerate() {
                if self.views.len() == 1 {
                    fields.push(make(name, program));
                } else {
                    fields.push(make(&format!("{name}_{i}"), program));
                }
            }
        };
        each(&mut fields, "image", &image);
        if self.label {
            fields.push(Field::fixed("label", DType::I64, []));
        }
        if self.masks.is_some() {
            each(&mut fields, "mask", &mask);
        }
        if let Some((_, count)) = self.boxes {
            each(&mut fields, "boxes", &|name, _| rows(name, count, 4));
        }
        if let Some((_, count)) = self.keypoints {
            each(&mut fields, "keypoints", &|name, _| rows(name, count, 2));
        }
        for (part, reading) in &self.others {
            fields.push(reading.field(&self.source.parts()[*part]));
        }
        self.fields = fields;
        self
    }
}
