//! A CSV file of paths.

use std::path::{Path, PathBuf};

use super::{csv, name_of, read_list, wrong};
use crate::SourceError;
use crate::volumes::VolumePaths;

/// The samples of a CSV file whose first row names its columns: `image`, or several that begin so, one for each
/// channel; `mask` or `label`, if there are masks; `name`, if there are names. Paths go from the file's folder on.
pub fn table(csv: &Path) -> Result<Vec<VolumePaths>, SourceError> {
    let rows = csv::rows(&read_list(csv)?).map_err(|what| wrong(csv, what))?;
    let mut rows = rows.into_iter();
    let columns: Vec<String> = rows.next().unwrap_or_default();
    let columns: Vec<String> = columns.iter().map(|name| name.trim().to_lowercase()).collect();
    let with = |names: &[&str]| columns.iter().position(|column| names.contains(&column.as_str()));
    let images: Vec<usize> =
        (0..columns.len()).filter(|column| columns[*column].starts_with("image")).collect();
    if images.is_empty() {
        let there = columns.join(", ");
        let what = format!("has no column `image`; its first row names {there}");
        return Err(wrong(csv, what));
    }
    let (mask, name) = (with(&["mask", "label"]), with(&["name"]));
    let folder = csv.parent().unwrap_or(Path::new(""));
    let samples = rows.enumerate().map(|(number, row)| {
        let cell =
            |column: usize| row.get(column).map(|cell| cell.trim()).filter(|cell| !cell.is_empty());
        let path = |column: usize| {
            let missing = || {
                let what =
                    format!("has nothing in column `{}` of row {}", columns[column], number + 2);
                wrong(csv, what)
            };
            cell(column).map(|cell| folder.join(cell)).ok_or_else(missing)
        };
        let images: Vec<PathBuf> =
            images.iter().map(|column| path(*column)).collect::<Result<_, _>>()?;
        let mask = mask.map(path).transpose()?;
        let name = name.and_then(cell).map_or_else(|| name_of(&images[0]), str::to_string);
        Ok(VolumePaths { name, images, mask })
    });
    let samples: Vec<VolumePaths> = samples.collect::<Result<_, SourceError>>()?;
    if samples.is_empty() {
        return Err(wrong(
            csv,
            "has no row but the first, which names columns; add one for each sample",
        ));
    }
    Ok(samples)
}
