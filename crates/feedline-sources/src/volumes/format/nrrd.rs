//! NRRD headers: <https://teem.sourceforge.net/nrrd/format.html>, read as pynrrd and ITK do.

use std::collections::HashMap;

use feedline_volume::VoxelType;

use super::fields::{bad, integer, missing, number, numbers, sizes};
use super::{Beginning, Roots, after_lines, names};
use crate::source_file::SourceFile;
use crate::volumes::error::VolumeProblem;
use crate::volumes::header::{
    DataFile, DataPlace, SkippedBefore, VolumeFormat, VolumeHeader, VoxelEncoding, geometry,
    strides,
};

/// The fields of a header, under the names that they have without spaces.
struct NrrdFields<'a> {
    fields: HashMap<String, &'a str>,
    /// What follows `data file: LIST`.
    list: Vec<&'a str>,
}

/// An axis of the data.
#[derive(Clone, Copy)]
struct NrrdAxis {
    size: usize,
    stride: u64,
    /// Where the next voxel is, if it is an axis of space and somebody said so.
    direction: Option<[f64; 3]>,
    spatial: bool,
}

pub(super) fn read(mut beginning: Beginning, roots: &Roots) -> Result<VolumeHeader, VolumeProblem> {
    let end = beginning.until(header_end)?;
    let text = String::from_utf8_lossy(&beginning.bytes[..end]).into_owned();
    let fields = NrrdFields::of(&text)?;
    let voxel_type = voxel_type(fields.needed("type")?)?;
    let encoding = encoding(fields.needed("encoding")?)?;
    let dimension: usize = integer("dimension", fields.needed("dimension")?)?;
    let sizes = sizes("sizes", fields.needed("sizes")?)?;
    if dimension != sizes.len() {
        let what = format!("has `dimension` {dimension} and {} `sizes`", sizes.len());
        return Err(VolumeProblem::header(what));
    }
    let needs_endian = voxel_type.bytes() > 1 && encoding != VoxelEncoding::Text;
    let big_endian = match fields.get("endian") {
        Some("big") => true,
        Some("little") => false,
        Some(other) => return Err(bad("endian", other)),
        None if needs_endian => return Err(missing("endian")),
        None => cfg!(target_endian = "big"),
    };
    let (steps, count) = strides(&sizes)?;
    let (space, origin) = space(&fields)?;
    let axes = axes(&fields, &sizes, &steps, space)?;
    let (spatial, other) = split(&axes)?;
    let (columns, origin) = place(&fields, &axes, &spatial, space, origin)?;
    let of = |axis: Option<usize>| axis.map_or((1, 0), |axis| (axes[axis].size, axes[axis].stride));
    let [(x, dx), (y, dy), (z, dz)] = [of(spatial[0]), of(spatial[1]), of(spatial[2])];
    let geometry = geometry([x, y, z], columns, origin)?;
    let (channels, channel_stride) = of(other);

    let bytes = count * voxel_type.bytes() as u64;
    let (files, before) = data_files(&fields, &beginning, end, roots, &sizes, encoding, bytes)?;
    let share = bytes / files.len() as u64;
    let place = DataPlace {
        files,
        share,
        encoding,
        before,
        big_endian,
        strides: [dz, dy, dx],
        channel_stride,
    };
    let format = VolumeFormat::Nrrd;
    Ok(VolumeHeader { geometry, voxel_type, channels, slope: 1.0, intercept: 0.0, format, place })
}

/// Where the data begins: after the first empty line, or after `data file:` and what it lists.
fn header_end(bytes: &[u8], _all: bool) -> Option<usize> {
    let mut start = 0;
    while let Some(length) = bytes[start..].iter().position(|byte| *byte == b'\n') {
        let line = &bytes[start..start + length];
        start += length + 1;
        if line.is_empty() || line == b"\r" {
            return Some(start);
        }
    }
    None
}

impl<'a> NrrdFields<'a> {
    fn of(text: &'a str) -> Result<NrrdFields<'a>, VolumeProblem> {
        let mut lines = text.lines();
        let magic = lines.next().unwrap_or_default().trim_end();
        if !matches!(magic, "NRRD0001" | "NRRD0002" | "NRRD0003" | "NRRD0004" | "NRRD0005") {
            return Err(bad("magic", magic));
        }
        let (mut fields, mut list) = (HashMap::new(), Vec::new());
        while let Some(line) = lines.next() {
            let line = line.trim_end();
            if line.starts_with('#') {
                continue;
            }
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| bad("line", line))?;
            if value.starts_with('=') {
                // A key of the user's own.
                continue;
            }
            // They may be written with and without spaces.
            let name: String = name.split_whitespace().collect::<String>().to_lowercase();
            let value = value.trim();
            if name == "datafile" && value.split_whitespace().next() == Some("LIST") {
                list = lines.by_ref().collect();
            }
            if fields.insert(name.clone(), value).is_some() {
                return Err(VolumeProblem::header(format!("has `{name}` twice")));
            }
        }
        Ok(NrrdFields { fields, list })
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.fields.get(name).copied()
    }

    fn needed(&self, name: &str) -> Result<&'a str, VolumeProblem> {
        self.get(name).ok_or_else(|| missing(name))
    }
}

fn voxel_type(name: &str) -> Result<VoxelType, VolumeProblem> {
    Ok(match name {
        "signed char" | "int8" | "int8_t" => VoxelType::I8,
        "uchar" | "unsigned char" | "uint8" | "uint8_t" => VoxelType::U8,
        "short" | "short int" | "signed short" | "signed short int" | "int16" | "int16_t" => {
            VoxelType::I16
        }
        "ushort" | "unsigned short" | "unsigned short int" | "uint16" | "uint16_t" => {
            VoxelType::U16
        }
        "int" | "signed int" | "int32" | "int32_t" => VoxelType::I32,
        "uint" | "unsigned int" | "uint32" | "uint32_t" => VoxelType::U32,
        "longlong"
        | "long long"
        | "long long int"
        | "signed long long"
        | "signed long long int"
        | "int64"
        | "int64_t" => VoxelType::I64,
        "ulonglong" | "unsigned long long" | "unsigned long long int" | "uint64" | "uint64_t" => {
            VoxelType::U64
        }
        "float" => VoxelType::F32,
        "double" => VoxelType::F64,
        "block" => {
            return Err(VolumeProblem::Unsupported {
                what: "data of the type `block`".to_string(),
                advice: "write its numbers as one of the number types",
            });
        }
        other => return Err(bad("type", other)),
    })
}

fn encoding(name: &str) -> Result<VoxelEncoding, VolumeProblem> {
    Ok(match name {
        "raw" => VoxelEncoding::Raw,
        "gzip" | "gz" => VoxelEncoding::Deflate,
        "bzip2" | "bz2" => VoxelEncoding::Bzip2,
        "ascii" | "ASCII" | "text" | "txt" => VoxelEncoding::Text,
        other => {
            let shown: String = other.chars().take(80).collect();
            return Err(VolumeProblem::Unsupported {
                what: format!("the encoding `{shown}`"),
                advice: "write it as raw, gzip, bzip2 or ascii",
            });
        }
    })
}

/// A vector such as `(1,0,0)`, or none.
fn vector(field: &str, word: &str) -> Result<Option<Vec<f64>>, VolumeProblem> {
    if word == "none" {
        return Ok(None);
    }
    let inside = word.strip_prefix('(').and_then(|word| word.strip_suffix(')'));
    let inside = inside.ok_or_else(|| bad(field, word))?;
    let numbers: Option<Vec<f64>> = inside.split(',').take(17).map(number).collect();
    numbers.filter(|numbers| numbers.len() <= 16).map(Some).ok_or_else(|| bad(field, word))
}

/// Vectors with spaces between them, and within them too.
fn vectors(field: &str, value: &str) -> Result<Vec<Option<Vec<f64>>>, VolumeProblem> {
    let mut found = Vec::new();
    let mut rest = value.trim();
    while !rest.is_empty() && found.len() <= 16 {
        let end = match rest.strip_prefix('(') {
            Some(inside) => inside.find(')').map(|at| at + 2).ok_or_else(|| bad(field, value))?,
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        found.push(vector(field, &rest[..end])?);
        rest = rest[end..].trim_start();
    }
    Ok(found)
}

/// By what coordinates are multiplied to be right, anterior, superior; and the dimension of the space, where there
/// is one. As in ITK, what says nothing is left, posterior, superior.
fn space(fields: &NrrdFields<'_>) -> Result<([f64; 3], Option<Vec<f64>>), VolumeProblem> {
    let signs = match fields.get("space").map(str::to_lowercase).as_deref() {
        Some("right-anterior-superior" | "ras") => [1.0, 1.0, 1.0],
        Some("left-anterior-superior" | "las") => [-1.0, 1.0, 1.0],
        Some(
            "right-anterior-superior-time"
            | "rast"
            | "left-anterior-superior-time"
            | "last"
            | "left-posterior-superior-time"
            | "lpst",
        ) => {
            return Err(VolumeProblem::Unsupported {
                what: "a space with time".to_string(),
                advice: "write each time as a channel of a space of three axes",
            });
        }
        _ => [-1.0, -1.0, 1.0],
    };
    let origin = match fields.get("spaceorigin") {
        Some(value) => vector("space origin", &value.split_whitespace().collect::<String>())?,
        None => None,
    };
    Ok((signs, origin))
}

fn axes(
    fields: &NrrdFields<'_>,
    sizes: &[usize],
    steps: &[u64],
    signs: [f64; 3],
) -> Result<Vec<NrrdAxis>, VolumeProblem> {
    let directions = match fields.get("spacedirections") {
        Some(value) => Some(vectors("space directions", value)?),
        None => None,
    };
    let kinds: Option<Vec<&str>> =
        fields.get("kinds").map(|kinds| kinds.split_whitespace().collect());
    for (name, length) in [
        ("space directions", directions.as_ref().map(Vec::len)),
        ("kinds", kinds.as_ref().map(Vec::len)),
    ] {
        if length.is_some_and(|length| length != sizes.len()) {
            let what = format!("has another number of `{name}` than of `sizes`");
            return Err(VolumeProblem::header(what));
        }
    }
    let mut spatial = 0;
    let mut axes = Vec::with_capacity(sizes.len());
    for (number, size) in sizes.iter().enumerate() {
        let direction = match &directions {
            Some(directions) => {
                directions[number].as_ref().map(|v| in_space(v, signs)).transpose()?
            }
            None => None,
        };
        let is_spatial = match (&directions, &kinds) {
            (Some(_), _) => direction.is_some(),
            (None, Some(kinds)) => matches!(kinds[number], "domain" | "space" | "none" | "???"),
            (None, None) => true,
        };
        // Without directions a fourth axis is a list.
        let is_spatial = is_spatial && (directions.is_some() || spatial < 3);
        spatial += usize::from(is_spatial);
        axes.push(NrrdAxis { size: *size, stride: steps[number], direction, spatial: is_spatial });
    }
    Ok(axes)
}

/// A vector of two or three coordinates.
fn in_space(vector: &[f64], signs: [f64; 3]) -> Result<[f64; 3], VolumeProblem> {
    let coordinates = match *vector {
        [x, y] => [x, y, 0.0],
        [x, y, z] => [x, y, z],
        _ => {
            return Err(VolumeProblem::Unsupported {
                what: format!("a space of {} dimensions", vector.len()),
                advice: "write it with two or three",
            });
        }
    };
    // No negative zeros.
    Ok(std::array::from_fn(|axis| coordinates[axis] * signs[axis] + 0.0))
}

/// The axes of space in their order, and the one that is none.
fn split(axes: &[NrrdAxis]) -> Result<([Option<usize>; 3], Option<usize>), VolumeProblem> {
    let spatial: Vec<usize> = (0..axes.len()).filter(|axis| axes[*axis].spatial).collect();
    let others: Vec<usize> =
        (0..axes.len()).filter(|axis| !axes[*axis].spatial && axes[*axis].size > 1).collect();
    if spatial.len() > 3 || spatial.is_empty() || others.len() > 1 {
        return Err(VolumeProblem::Unsupported {
            what: format!("{} axes of space and {} others", spatial.len(), others.len()),
            advice: "write it with up to three axes of space and one for channels",
        });
    }
    Ok((std::array::from_fn(|i| spatial.get(i).copied()), others.first().copied()))
}

/// Where neighbours are along the axes of space, and where the first voxel is.
fn place(
    fields: &NrrdFields<'_>,
    axes: &[NrrdAxis],
    spatial: &[Option<usize>; 3],
    signs: [f64; 3],
    origin: Option<Vec<f64>>,
) -> Result<([[f64; 3]; 3], [f64; 3]), VolumeProblem> {
    let mut columns = [[0.0; 3]; 3];
    let per_axis = |name: &'static str| -> Result<Option<Vec<f64>>, VolumeProblem> {
        let Some(value) = fields.get(&name.replace(' ', "")) else { return Ok(None) };
        let values = numbers(name, value)?;
        if values.len() == axes.len() { Ok(Some(values)) } else { Err(bad(name, value)) }
    };
    let spacings = per_axis("spacings")?;
    let least = per_axis("axis mins")?;
    let centerings: Vec<&str> =
        fields.get("centerings").unwrap_or_default().split_whitespace().collect();
    let mut corner = Some([0.0; 3]);
    for (i, axis) in spatial.iter().enumerate() {
        let unit = std::array::from_fn(|row| if row == i { signs[row] } else { 0.0 });
        let Some(axis) = *axis else {
            columns[i] = unit;
            continue;
        };
        let spacing = spacings.as_ref().map(|spacings| spacings[axis]);
        let straight = |step: f64| unit.map(|x: f64| x * step + 0.0);
        columns[i] = match (axes[axis].direction, spacing) {
            (Some(direction), _) => direction,
            (None, Some(spacing)) => straight(spacing),
            (None, None) => unit,
        };
        // ITK's rule: the first voxel's middle, where every axis says where it begins.
        corner = match (corner, spacing, least.as_ref().map(|least| least[axis])) {
            (Some(mut corner), Some(spacing), Some(least)) if least.is_finite() => {
                let half = if centerings.get(axis) == Some(&"node") { 0.0 } else { spacing / 2.0 };
                corner[i] = (least + half) * signs[i];
                Some(corner)
            }
            _ => None,
        };
    }
    if spatial[2].is_none() {
        columns[2] = across(columns, signs);
    }
    let origin = match origin {
        Some(origin) => in_space(&origin, signs)?,
        None => corner.unwrap_or_default(),
    };
    Ok((columns, origin))
}

/// The third axis of a picture: at right angles to its plane, a millimetre a voxel.
fn across([a, b, c]: [[f64; 3]; 3], signs: [f64; 3]) -> [f64; 3] {
    let flat = a[2] == 0.0 && b[2] == 0.0;
    if flat {
        return [0.0, 0.0, signs[2]];
    }
    let cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    let length = cross.iter().map(|x| x * x).sum::<f64>().sqrt();
    if length > 0.0 { cross.map(|x| x / length) } else { c }
}

/// The files with the data, and what comes before it in each.
fn data_files(
    fields: &NrrdFields<'_>,
    beginning: &Beginning,
    end: usize,
    roots: &Roots,
    sizes: &[usize],
    encoding: VoxelEncoding,
    bytes: u64,
) -> Result<(Vec<DataFile>, SkippedBefore), VolumeProblem> {
    let lines: i64 = fields.get("lineskip").map_or(Ok(0), |value| integer("line skip", value))?;
    let skipped: i64 = fields.get("byteskip").map_or(Ok(0), |value| integer("byte skip", value))?;
    let lines = u64::try_from(lines).map_err(|_| bad("line skip", &lines.to_string()))?;
    if skipped < -1 {
        return Err(bad("byte skip", &skipped.to_string()));
    }
    let start = |file: &SourceFile, from: u64, length: u64, share: u64| {
        // Bytes are skipped in what is decoded, lines before that.
        let at = after_lines(file, from, length, lines)?;
        Ok::<_, VolumeProblem>(match (encoding, u64::try_from(skipped)) {
            (VoxelEncoding::Raw, Err(_)) => {
                let actual = length.saturating_sub(from);
                length.checked_sub(share).ok_or(VolumeProblem::Short { expected: share, actual })?
            }
            (VoxelEncoding::Raw | VoxelEncoding::Text, Ok(skipped)) => at.saturating_add(skipped),
            _ => at,
        })
    };
    let before = match (encoding, u64::try_from(skipped)) {
        (VoxelEncoding::Raw | VoxelEncoding::Text, _) => SkippedBefore::Bytes(0),
        (_, Ok(skipped)) => SkippedBefore::Bytes(skipped),
        (_, Err(_)) => SkippedBefore::Rest,
    };
    let Some(names) = data_names(fields, sizes, bytes)? else {
        let at = start(&beginning.file, end as u64, beginning.stamp.len, bytes)?;
        return Ok((vec![beginning.data_file(at)], before));
    };
    let share = bytes / names.len() as u64;
    let files = names.iter().map(|name| {
        let (file, mut data) = roots.data_file(&beginning.path, name)?;
        data.start = start(&file, 0, data.stamp.len, share)?;
        Ok(data)
    });
    Ok((files.collect::<Result<_, VolumeProblem>>()?, before))
}

/// The names of detached data files: none if the data is in the same file.
fn data_names(
    fields: &NrrdFields<'_>,
    sizes: &[usize],
    bytes: u64,
) -> Result<Option<Vec<String>>, VolumeProblem> {
    const FIELD: &str = "data file";
    let Some(value) = fields.get("datafile") else { return Ok(None) };
    let words: Vec<&str> = value.split_whitespace().collect();
    let (names, subdimension) = match &words[..] {
        ["LIST", rest @ ..] => (names::listed(fields.list.iter().copied())?, rest.first().copied()),
        [pattern, first, last, step, rest @ ..] if pattern.contains('%') => {
            let range = (integer(FIELD, first)?, integer(FIELD, last)?, integer(FIELD, step)?);
            (names::numbered(FIELD, pattern, range)?, rest.first().copied())
        }
        [] => return Err(bad(FIELD, value)),
        _ => return Ok(Some(vec![value.to_string()])),
    };
    let dimension = sizes.len();
    let subdimension = match subdimension {
        Some(word) => integer::<usize>(FIELD, word)?,
        None => dimension - 1,
    };
    let count = names.len();
    let fits = match subdimension {
        0 => false,
        axes if axes < dimension => sizes[axes..].iter().product::<usize>() == count,
        // Pieces of the slowest axis.
        axes if axes == dimension => sizes[dimension - 1].is_multiple_of(count),
        _ => false,
    };
    if !fits || !bytes.is_multiple_of(count as u64) {
        let what = format!("lists {count} data files, which do not make up its sizes {sizes:?}");
        return Err(VolumeProblem::header(what));
    }
    Ok(Some(names))
}
