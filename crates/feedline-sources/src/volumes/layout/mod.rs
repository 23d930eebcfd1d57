//! Which files belong together: image and mask, and several channels of one image.
//!
//! | function | layout |
//! | --- | --- |
//! | [`folders`] | images in a folder, masks of the same names in another |
//! | [`nnunet`] | nnU-Net: `imagesTr/case_0000.nii.gz`, `labelsTr/case.nii.gz`, `dataset.json` |
//! | [`decathlon`] | the `dataset.json` of the Medical Segmentation Decathlon |
//! | [`table`] | a CSV file with a column `image` (or several) and a column `mask` |

mod csv;
mod decathlon;
mod folders;
mod nnunet;
mod table;

use std::path::{Path, PathBuf};

use super::error::shown;
use crate::files::{FileOptions, Files};
use crate::source_file::SourceFile;
use crate::{Encoded, SourceError};

pub use decathlon::decathlon;
pub use folders::folders;
pub use nnunet::nnunet;
pub use table::table;

/// Endings of volumes' names. Of a pair of files the header counts.
pub const ENDINGS: [&str; 8] =
    [".nii.gz", ".nii", ".nrrd", ".nhdr", ".mha", ".mhd", ".hdr.gz", ".hdr"];

/// The longest list of files that is read.
const LONGEST_LIST: u64 = 256 << 20;

/// The volumes in a folder and below it, in the order of their names.
fn volumes_in(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let options = FileOptions {
        extensions: ENDINGS.iter().map(|ending| (*ending).to_string()).collect(),
        classes: false,
        ..FileOptions::default()
    };
    let files = Files::open(folder, &options, &mut |_| std::ops::ControlFlow::Continue(()))?;
    let all = (0..files.len()).filter_map(|index| files.path(feedline_core::SampleIndex(index)));
    Ok(all.collect())
}

/// A name without the ending that volumes have; none, if it has another.
fn without_ending(name: &str) -> Option<&str> {
    ENDINGS.iter().find_map(|ending| {
        let at = name.len().checked_sub(ending.len()).filter(|at| name.is_char_boundary(*at))?;
        name[at..].eq_ignore_ascii_case(ending).then_some(&name[..at])
    })
}

/// A path below a folder as text, without its ending.
fn key(folder: &Path, path: &Path) -> Result<String, SourceError> {
    let below = path.strip_prefix(folder).unwrap_or(path);
    let text =
        below.to_str().ok_or_else(|| wrong(path, "has a name that is no text; rename it"))?;
    Ok(without_ending(text).unwrap_or(text).to_string())
}

fn wrong(path: &Path, what: impl Into<String>) -> SourceError {
    SourceError::VolumeLayout { path: shown(path), what: what.into() }
}

/// A list of files as text.
fn read_list(path: &Path) -> Result<String, SourceError> {
    let cannot = |doing| {
        let path = path.to_path_buf();
        move |source| SourceError::Io { doing, path, source }
    };
    let (file, stamp) = SourceFile::open(path).map_err(cannot("open"))?;
    if stamp.len > LONGEST_LIST {
        let what = format!("has {} bytes, more than a list of files may have", stamp.len);
        return Err(wrong(path, what));
    }
    let mut bytes = Vec::new();
    file.append_whole(&mut bytes, stamp.len).map_err(cannot("read"))?;
    let text =
        String::from_utf8(bytes).map_err(|_| wrong(path, "is no UTF-8 text; write it as UTF-8"))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text))
}

/// The name of a sample whose first image has this path.
fn name_of(image: &Path) -> String {
    let name =
        image.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    without_ending(&name).map(str::to_string).unwrap_or(name)
}
