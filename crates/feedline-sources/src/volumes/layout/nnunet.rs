//! nnU-Net's layout.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ENDINGS, key, read_list, volumes_in, wrong};
use crate::SourceError;
use crate::source_file::is_url;
use crate::stamp::Stamp;
use crate::volumes::VolumePaths;

/// The training cases of a dataset folder: `imagesTr/case_0000.nii.gz`, a file for each channel, and
/// `labelsTr/case.nii.gz` where there are labels. `dataset.json`, of nnU-Net 1 or 2, says how many channels there are
/// and what files end in; without it, as many as the first case has. A `dataset` in it (nnU-Net 2) names files itself.
pub fn nnunet(root: &Path) -> Result<Vec<VolumePaths>, SourceError> {
    let about_path = root.join("dataset.json");
    let about: Option<Value> = if is_there(&about_path) {
        let parsed = serde_json::from_str(&read_list(&about_path)?);
        Some(parsed.map_err(|error| wrong(&about_path, format!("is no JSON: {error}")))?)
    } else {
        None
    };
    if let Some(cases) = about.as_ref().and_then(|about| about.get("dataset")?.as_object()) {
        return cases.iter().map(|(name, case)| named(root, &about_path, name, case)).collect();
    }
    let channels = about.as_ref().and_then(|about| {
        let names = about.get("channel_names").or_else(|| about.get("modality"))?;
        names.as_object().map(serde_json::Map::len).or(names.as_array().map(Vec::len))
    });
    let ending = about.as_ref().and_then(|about| about.get("file_ending")?.as_str());
    let images = root.join("imagesTr");
    let mut cases: BTreeMap<String, BTreeMap<usize, PathBuf>> = BTreeMap::new();
    for path in volumes_in(&images)? {
        if ending.is_some_and(|ending| !path.to_string_lossy().ends_with(ending)) {
            continue;
        }
        let name = key(&images, &path)?;
        let channel = name.rsplit_once('_').filter(|(_, digits)| {
            digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_digit())
        });
        let Some((case, digits)) = channel else {
            return Err(wrong(
                &path,
                "has no channel at its name's end, as in case_0000.nii.gz; rename it, or pass a list",
            ));
        };
        let channel = digits.parse().unwrap_or(0);
        if cases.entry(case.to_string()).or_default().insert(channel, path.clone()).is_some() {
            return Err(wrong(&path, "is there twice, with two endings; remove one of them"));
        }
    }
    let Some(first) = cases.values().next() else {
        return Err(wrong(&images, "has no volume; give the dataset's folder"));
    };
    let channels = channels.unwrap_or(first.len());
    let labels = root.join("labelsTr");
    let masks = masks_in(&labels)?;
    let mut samples = Vec::with_capacity(cases.len());
    for (name, files) in cases {
        if files.len() != channels || files.keys().copied().ne(0..channels) {
            let path = files.into_values().next().unwrap_or(images);
            let what = format!(
                "is one channel of {channels}, and of its case not all, or others, are there; add them, or correct \
                 dataset.json"
            );
            return Err(wrong(&path, what));
        }
        let mask = masks.as_ref().map(|masks| label(masks, &labels, &name, ending)).transpose()?;
        samples.push(VolumePaths { name, images: files.into_values().collect(), mask });
    }
    Ok(samples)
}

/// Whether a file or an object is there.
fn is_there(path: &Path) -> bool {
    if is_url(path) { Stamp::now(path).is_ok() } else { path.is_file() }
}

/// What masks there are.
enum Masks {
    /// Those of a folder, which is looked at for each.
    OnDisk,
    /// Those that a store has told of.
    Listed(HashSet<PathBuf>),
}

/// The masks of a folder; `None` where there is none.
fn masks_in(folder: &Path) -> Result<Option<Masks>, SourceError> {
    if !is_url(folder) {
        return Ok(folder.is_dir().then_some(Masks::OnDisk));
    }
    match volumes_in(folder) {
        Ok(masks) => Ok(Some(Masks::Listed(masks.into_iter().collect()))),
        Err(SourceError::Store(error)) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The labels of a case.
fn label(
    masks: &Masks,
    folder: &Path,
    case: &str,
    ending: Option<&str>,
) -> Result<PathBuf, SourceError> {
    let one = ending.map(|ending| [ending]);
    let endings = one.as_ref().map_or(&ENDINGS[..], |one| &one[..]);
    let mut paths = endings.iter().map(|ending| folder.join(format!("{case}{ending}")));
    let is_there = |path: &PathBuf| match masks {
        Masks::OnDisk => path.exists(),
        Masks::Listed(all) => all.contains(path),
    };
    paths.find(is_there).ok_or_else(|| {
        let ending = endings.first().copied().unwrap_or_default();
        wrong(
            folder,
            format!("has no {case}{ending}, the labels of an image that is there; add it"),
        )
    })
}

/// A case whose files are named.
fn named(root: &Path, about: &Path, name: &str, case: &Value) -> Result<VolumePaths, SourceError> {
    let no = || wrong(about, format!("names no images of the case {name:?} in `dataset`"));
    let images = case.get("images").and_then(Value::as_array).ok_or_else(no)?;
    let path = |value: &Value| value.as_str().map(|path| root.join(path)).ok_or_else(no);
    let images: Vec<PathBuf> = images.iter().map(path).collect::<Result<_, _>>()?;
    if images.is_empty() {
        return Err(no());
    }
    let mask = case.get("label").filter(|label| !label.is_null()).map(path).transpose()?;
    Ok(VolumePaths { name: name.to_string(), images, mask })
}
