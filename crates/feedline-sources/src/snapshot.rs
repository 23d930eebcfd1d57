//! A finished sample as bytes: each field's value, with its shape where that varies.

use feedline_core::{Cause, Field, Form, Sample, SampleView};

const DAMAGED: &str =
    "a kept sample does not have the fields of this dataset; if it comes from a cache, empty that";

/// Appends the sample to `out`.
pub fn write(view: &SampleView<'_>, out: &mut Vec<u8>) {
    for (i, field) in view.fields().iter().enumerate() {
        if !matches!(field.form(), Form::Fixed { .. }) {
            let shape = view.shape(i);
            out.extend((shape.len() as u64).to_le_bytes());
            out.extend(shape.iter().flat_map(|axis| (*axis as u64).to_le_bytes()));
            out.extend((view.bytes(i).len() as u64).to_le_bytes());
        }
        out.extend(view.bytes(i));
    }
}

/// Writes a sample that [`write()`] put into bytes.
pub fn read(fields: &[Field], mut bytes: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
    let mut shape = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        if matches!(field.form(), Form::Fixed { .. }) {
            let slot = sample.view_bytes(i)?;
            let (value, rest) = bytes.split_at_checked(slot.len()).ok_or(DAMAGED)?;
            slot.copy_from_slice(value);
            bytes = rest;
            continue;
        }
        let axes = number(&mut bytes)?;
        shape.clear();
        for _ in 0..axes.min(64) {
            shape.push(number(&mut bytes)?);
        }
        let length = number(&mut bytes)?;
        let (value, rest) = bytes.split_at_checked(length).ok_or(DAMAGED)?;
        sample.put_elements(i, &shape, value)?;
        bytes = rest;
    }
    if bytes.is_empty() { Ok(()) } else { Err(DAMAGED.into()) }
}

/// The bytes of one field of such a sample.
pub fn part<'a>(fields: &[Field], mut bytes: &'a [u8], part: usize) -> Result<&'a [u8], Cause> {
    for (i, field) in fields.iter().enumerate() {
        let length = match field.form() {
            Form::Fixed { shape } => shape.iter().product::<usize>() * field.dtype().size(),
            _ => {
                for _ in 0..number(&mut bytes)?.min(64) {
                    number(&mut bytes)?;
                }
                number(&mut bytes)?
            }
        };
        let (value, rest) = bytes.split_at_checked(length).ok_or(DAMAGED)?;
        if i == part {
            return Ok(value);
        }
        bytes = rest;
    }
    Err(DAMAGED.into())
}

fn number(bytes: &mut &[u8]) -> Result<usize, Cause> {
    let (number, rest) = bytes.split_first_chunk::<8>().ok_or(DAMAGED)?;
    *bytes = rest;
    Ok(usize::try_from(u64::from_le_bytes(*number))?)
}
