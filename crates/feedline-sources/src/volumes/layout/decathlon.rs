//! The `dataset.json` of the Medical Segmentation Decathlon.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{name_of, read_list, wrong};
use crate::SourceError;
use crate::volumes::VolumePaths;

/// The training cases that a `dataset.json` lists: pairs of `image` and `label`, from its own folder on. An image may be
/// a list of files, one for each channel.
pub fn decathlon(json: &Path) -> Result<Vec<VolumePaths>, SourceError> {
    let parsed: Value = serde_json::from_str(&read_list(json)?)
        .map_err(|error| wrong(json, format!("is no JSON: {error}")))?;
    let cases = parsed.get("training").and_then(Value::as_array).ok_or_else(|| {
        wrong(
            json,
            "has no list `training`; give the dataset.json of a dataset with training cases",
        )
    })?;
    if cases.is_empty() {
        return Err(wrong(json, "lists no training case; give another"));
    }
    let folder = json.parent().unwrap_or(Path::new(""));
    cases.iter().enumerate().map(|(number, case)| sample(folder, json, number, case)).collect()
}

fn sample(
    folder: &Path,
    json: &Path,
    number: usize,
    case: &Value,
) -> Result<VolumePaths, SourceError> {
    let no = |what: &str| {
        wrong(
            json,
            format!(
                "has no {what} for training case {number}; name a file, from the list's folder on"
            ),
        )
    };
    let path = |value: &Value, what: &str| {
        let text = value.as_str().ok_or_else(|| no(what))?;
        Ok::<PathBuf, SourceError>(folder.join(text.strip_prefix("./").unwrap_or(text)))
    };
    let (image, label) = match case {
        Value::Object(fields) => (fields.get("image"), fields.get("label")),
        other => (Some(other), None),
    };
    let images: Vec<PathBuf> = match image {
        Some(Value::Array(files)) if !files.is_empty() => {
            files.iter().map(|file| path(file, "image")).collect::<Result<_, _>>()?
        }
        Some(one) => vec![path(one, "image")?],
        None => return Err(no("image")),
    };
    let mask = label.map(|label| path(label, "label")).transpose()?;
    Ok(VolumePaths { name: name_of(&images[0]), images, mask })
}
