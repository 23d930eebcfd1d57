//! MetaImage headers (.mha, .mhd): <https://itk.org/Wiki/ITK/MetaIO/Documentation>, read as ITK does.

use std::collections::HashMap;

use feedline_volume::VoxelType;

use super::fields::{bad, integer, missing, numbers, sizes};
use super::{Beginning, Roots, names};
use crate::volumes::error::VolumeProblem;
use crate::volumes::header::{
    DataFile, DataPlace, SkippedBefore, VolumeFormat, VolumeHeader, VoxelEncoding, flipped,
    geometry, strides,
};

/// Fields of a header, and what follows the last one.
struct MetaFields<'a> {
    fields: HashMap<&'a str, &'a str>,
    list: Vec<&'a str>,
}

/// Whether a header may begin so: with `Name = value`, one of the names that there are.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some((name, _)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once('='))
    else {
        return false;
    };
    matches!(
        name.trim(),
        "ObjectType" | "NDims" | "Comment" | "ObjectSubType" | "TransformType" | "Name" | "ID"
    )
}

pub(super) fn read(mut beginning: Beginning, roots: &Roots) -> Result<VolumeHeader, VolumeProblem> {
    let end = beginning.until(header_end)?;
    let text = String::from_utf8_lossy(&beginning.bytes[..end]).into_owned();
    let fields = MetaFields::of(&text)?;
    if let Some(other) = fields.get("ObjectType").filter(|kind| *kind != "Image") {
        return Err(VolumeProblem::Unsupported {
            what: format!("an object of the type `{}`", other.chars().take(80).collect::<String>()),
            advice: "give an image",
        });
    }
    let axes: usize = integer("NDims", fields.needed("NDims")?)?;
    let sides = sizes("DimSize", fields.needed("DimSize")?)?;
    if axes != sides.len() {
        let what = format!("has `NDims` {axes} and {} `DimSize`", sides.len());
        return Err(VolumeProblem::header(what));
    }
    if axes > 4 {
        return Err(VolumeProblem::Unsupported {
            what: format!("an image of {axes} axes"),
            advice: "write it with up to three axes of space and one for channels",
        });
    }
    let voxel_type = voxel_type(fields.needed("ElementType")?)?;
    let each: usize = fields
        .get("ElementNumberOfChannels")
        .map_or(Ok(1), |n| integer("ElementNumberOfChannels", n))?;
    if each == 0 || (each > 1 && axes == 4) {
        return Err(VolumeProblem::Unsupported {
            what: format!("an image of {axes} axes with {each} channels"),
            advice: "write it with up to three axes of space and one for channels",
        });
    }
    // Channels of a voxel lie side by side.
    let all: Vec<usize> = std::iter::once(each).chain(sides.iter().copied()).collect();
    let (steps, count) = strides(&all)?;
    let side = |axis: usize| sides.get(axis).copied().unwrap_or(1);
    let step = |axis: usize| steps.get(axis + 1).copied().unwrap_or(0);
    let (columns, origin) = fields.place(axes)?;
    let geometry = geometry([side(0), side(1), side(2)], columns, origin)?;
    let (channels, channel_stride) = match side(3) {
        1 => (each, 1),
        times => (times, step(3)),
    };
    let encoding = fields.encoding()?;
    let bytes = count * voxel_type.bytes() as u64;
    let files = fields.files(&beginning, end, roots, &sides, encoding, bytes)?;
    let big =
        ["ElementByteOrderMSB", "BinaryDataByteOrderMSB"].iter().find_map(|name| fields.get(name));
    let big_endian = big.map_or(Ok(false), |value| truth("ElementByteOrderMSB", value))?;
    let place = DataPlace {
        share: bytes / files.len() as u64,
        files,
        encoding,
        before: SkippedBefore::Bytes(0),
        big_endian,
        strides: [step(2), step(1), step(0)],
        channel_stride,
    };
    let format = VolumeFormat::MetaImage;
    Ok(VolumeHeader { geometry, voxel_type, channels, slope: 1.0, intercept: 0.0, format, place })
}

/// Where the header ends: after the line of `ElementDataFile`, or with the file if names follow it.
fn header_end(bytes: &[u8], all: bool) -> Option<usize> {
    const LAST: &[u8] = b"ElementDataFile";
    let mut start = 0;
    loop {
        let length = bytes[start..].iter().position(|byte| *byte == b'\n');
        let line = &bytes[start..start + length.unwrap_or(bytes.len() - start)];
        if line.starts_with(LAST) && (length.is_some() || all) {
            let value = line.splitn(2, |byte| *byte == b'=').nth(1).unwrap_or_default();
            if value.trim_ascii().starts_with(b"LIST") {
                return all.then_some(bytes.len());
            }
            return Some((start + line.len() + 1).min(bytes.len()));
        }
        start += length? + 1;
    }
}

fn truth(field: &str, value: &str) -> Result<bool, VolumeProblem> {
    match value.chars().next() {
        Some('T' | 't' | '1' | 'Y' | 'y') => Ok(true),
        Some('F' | 'f' | '0' | 'N' | 'n') => Ok(false),
        _ => Err(bad(field, value)),
    }
}

fn voxel_type(name: &str) -> Result<VoxelType, VolumeProblem> {
    Ok(match name {
        "MET_CHAR" => VoxelType::I8,
        "MET_UCHAR" => VoxelType::U8,
        "MET_SHORT" => VoxelType::I16,
        "MET_USHORT" => VoxelType::U16,
        // As ITK reads them, also where C's long has eight bytes.
        "MET_INT" | "MET_LONG" => VoxelType::I32,
        "MET_UINT" | "MET_ULONG" => VoxelType::U32,
        "MET_LONG_LONG" => VoxelType::I64,
        "MET_ULONG_LONG" => VoxelType::U64,
        "MET_FLOAT" => VoxelType::F32,
        "MET_DOUBLE" => VoxelType::F64,
        other => return Err(bad("ElementType", other)),
    })
}

impl<'a> MetaFields<'a> {
    fn of(text: &'a str) -> Result<MetaFields<'a>, VolumeProblem> {
        let (mut fields, mut list) = (HashMap::new(), Vec::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.trim().is_empty() {
                continue;
            }
            let (name, value) = line.split_once('=').ok_or_else(|| bad("line", line))?;
            let (name, value) = (name.trim(), value.trim());
            fields.insert(name, value);
            if name == "ElementDataFile" {
                list = lines.collect();
                break;
            }
        }
        Ok(MetaFields { fields, list })
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.fields.get(name).copied()
    }

    fn needed(&self, name: &str) -> Result<&'a str, VolumeProblem> {
        self.get(name).ok_or_else(|| missing(name))
    }

    fn encoding(&self) -> Result<VoxelEncoding, VolumeProblem> {
        let is = |name: &str, otherwise| self.get(name).map_or(Ok(otherwise), |v| truth(name, v));
        Ok(match (is("BinaryData", true)?, is("CompressedData", false)?) {
            (true, true) => VoxelEncoding::Deflate,
            (true, false) => VoxelEncoding::Raw,
            (false, _) => VoxelEncoding::Text,
        })
    }

    /// Where neighbours along (x, y, z) are, and the first voxel. Files are in left, posterior, superior.
    fn place(&self, axes: usize) -> Result<([[f64; 3]; 3], [f64; 3]), VolumeProblem> {
        let some = |names: &[&'static str], count: usize| {
            let found = names.iter().find_map(|name| self.get(name).map(|value| (*name, value)));
            let Some((name, value)) = found else { return Ok(None) };
            let numbers = numbers(name, value)?;
            if numbers.len() < count { Err(bad(name, value)) } else { Ok(Some(numbers)) }
        };
        let spacing = some(&["ElementSpacing", "ElementSize"], axes)?;
        let offset = some(&["Offset", "Position", "Origin"], axes)?;
        let matrix = some(&["TransformMatrix", "Rotation", "Orientation"], axes * axes)?;
        let mut columns = [[0.0; 3]; 3];
        for (axis, column) in columns.iter_mut().enumerate() {
            let step =
                spacing.as_ref().filter(|_| axis < axes).map_or(1.0, |spacing| spacing[axis]);
            *column = flipped(std::array::from_fn(|row| {
                let along = match &matrix {
                    Some(matrix) if axis < axes && row < axes => matrix[axis * axes + row],
                    _ => f64::from(u8::from(axis == row)),
                };
                along * step
            }));
        }
        let origin = offset.map_or([0.0; 3], |offset| {
            flipped(std::array::from_fn(|axis| offset.get(axis).copied().unwrap_or(0.0)))
        });
        Ok((columns, origin))
    }

    /// The files with the voxels.
    fn files(
        &self,
        beginning: &Beginning,
        end: usize,
        roots: &Roots,
        sides: &[usize],
        encoding: VoxelEncoding,
        bytes: u64,
    ) -> Result<Vec<DataFile>, VolumeProblem> {
        const FIELD: &str = "ElementDataFile";
        let value = self.needed(FIELD)?;
        let words: Vec<&str> = value.split_whitespace().collect();
        let skipped: i64 = self.get("HeaderSize").map_or(Ok(0), |n| integer("HeaderSize", n))?;
        if matches!(words[..], ["LOCAL" | "Local" | "local"]) {
            return Ok(vec![beginning.data_file(end as u64)]);
        }
        let names = match &words[..] {
            [] => return Err(bad(FIELD, value)),
            ["LIST", rest @ ..] => {
                let names = names::listed(self.list.iter().copied())?;
                let axes = match rest.first() {
                    Some(word) => integer::<usize>(FIELD, word.trim_end_matches(['D', 'd']))?,
                    None => sides.len() - 1,
                };
                let slices = sides.get(axes..).map(|sides| sides.iter().product::<usize>());
                if slices != Some(names.len()) {
                    let what = format!(
                        "lists {} data files, which do not make up its sizes {sides:?}",
                        names.len()
                    );
                    return Err(VolumeProblem::header(what));
                }
                names
            }
            [pattern, rest @ ..] if pattern.contains('%') => {
                let number = |at: usize, otherwise: i64| match rest.get(at) {
                    Some(word) => integer(FIELD, word),
                    None => Ok(otherwise),
                };
                let last = sides.last().map_or(1, |side| *side as i64);
                let range = (number(0, 1)?, number(1, last)?, number(2, 1)?);
                names::numbered(FIELD, pattern, range)?
            }
            _ => vec![value.to_string()],
        };
        let count = names.len() as u64;
        if !bytes.is_multiple_of(count) {
            let what =
                format!("names {count} data files, which do not make up its sizes {sides:?}");
            return Err(VolumeProblem::header(what));
        }
        let share = bytes / count;
        let files = names.iter().map(|name| {
            let (_, mut data) = roots.data_file(&beginning.path, name)?;
            data.start = match u64::try_from(skipped) {
                Ok(skipped) => skipped,
                Err(_) if skipped == -1 && encoding == VoxelEncoding::Raw => {
                    let actual = data.stamp.len;
                    actual
                        .checked_sub(share)
                        .ok_or(VolumeProblem::Short { expected: share, actual })?
                }
                Err(_) => return Err(bad("HeaderSize", &skipped.to_string())),
            };
            Ok(data)
        });
        files.collect()
    }
}
