//! Volumes with their masks: made once and kept, or found in a folder that the user names.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::super::{ExperimentError, Session, SessionEvent};
use crate::generate::{PhantomLayout, PhantomSpec};

/// How names of volumes end, the longest first.
const ENDINGS: [&str; 7] = [".nii.gz", ".nii", ".nrrd", ".nhdr", ".mha", ".mhd", ".hdr"];

/// Bytes of memory for each byte on disk, where nothing else is known: gzip halves int16, and readers make float32
/// of it beside what they read.
const UNPACKED: u64 = 6;

/// Bytes of memory for each voxel of image and mask while Python makes a patch of them.
const VOXEL_BYTES: u64 = 12;

/// File systems tell times no coarser than that, and a bit.
const MOMENT: Duration = Duration::from_millis(2500);

/// A volume and its mask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct CaseFiles(pub(super) PathBuf, pub(super) PathBuf);

/// All cases of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Cases {
    pub(super) list: Vec<CaseFiles>,
    /// Whether they were made, and so are the same on every machine.
    pub(super) are_made: bool,
    /// What a reader that takes a whole case into memory needs for it.
    pub(super) whole_bytes: u64,
}

impl Cases {
    /// Those of a specification, made if they are not there.
    pub(super) fn make(
        spec: &PhantomSpec,
        session: &mut Session<'_>,
    ) -> Result<Self, ExperimentError> {
        let folder = session.cache.join(spec.folder_name());
        spec.make(&folder, |done| {
            let what = "making volumes";
            session.tell(SessionEvent::Prepares { what, done, of: spec.count });
            !session.is_interrupted()
        })?;
        let mut cases = Self::find(&folder)?;
        cases.are_made = true;
        let voxels: u64 = spec.size.iter().map(|side| u64::from(*side)).product();
        cases.whole_bytes = voxels.saturating_mul(VOXEL_BYTES);
        Ok(cases)
    }

    /// Those in a folder, in the order of their names: `images` and `masks`, or nnU-Net's.
    pub(super) fn find(folder: &Path) -> Result<Self, ExperimentError> {
        let mut list = Vec::new();
        for layout in [PhantomLayout::Folders, PhantomLayout::NnUnet] {
            let (images, masks) = layout.folders();
            let masks = folder.join(masks);
            for image in volumes(&folder.join(images)) {
                let Some((stem, ending)) = split(&image) else { continue };
                let stem = match layout {
                    PhantomLayout::NnUnet => stem.strip_suffix("_0000"),
                    _ => Some(stem),
                };
                let Some(stem) = stem else {
                    let path = image.display();
                    let problem = format!("{path} is a second channel; `volumes` takes one");
                    return Err(ExperimentError::Setting { problem });
                };
                let mask = masks.join(format!("{stem}{ending}"));
                if mask.is_file() {
                    list.push(CaseFiles(image, mask));
                }
            }
        }
        if list.is_empty() {
            let what = "volumes with masks (images and masks, or imagesTr and labelsTr)";
            return Err(ExperimentError::NoData { folder: folder.into(), what });
        }
        let size = |path: &Path| fs::metadata(path).map_or(0, |it| it.len());
        let largest = list.iter().map(|CaseFiles(image, mask)| size(image) + size(mask)).max();
        let whole_bytes = largest.unwrap_or(0).saturating_mul(UNPACKED);
        Ok(Self { list, are_made: false, whole_bytes })
    }

    /// All files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.list.iter().flat_map(|CaseFiles(image, mask)| [image.clone(), mask.clone()]).collect()
    }

    /// Waits until the files are old enough for what is learnt of them to be kept: of one that was written within
    /// [`MOMENT`], nobody can tell whether it changes again.
    pub(super) fn settle(&self) {
        let written = |path: &PathBuf| fs::metadata(path).and_then(|it| it.modified()).ok();
        let newest = self.files().iter().filter_map(written).max();
        let age = newest.and_then(|it| SystemTime::now().duration_since(it).ok());
        if let Some(rest) = age.and_then(|age| MOMENT.checked_sub(age)) {
            std::thread::sleep(rest);
        }
    }

    /// Who reads them besides feedline and MONAI: the contestant's name.
    pub(super) fn plain_reader(&self) -> &'static str {
        let is_nifti = self.list.iter().all(|CaseFiles(image, _)| {
            split(image).is_some_and(|(_, ending)| ending.starts_with(".nii") || ending == ".hdr")
        });
        if is_nifti { "torch+nibabel" } else { "torch+pynrrd" }
    }
}

/// A volume's name and how it ends.
fn split(path: &Path) -> Option<(&str, &'static str)> {
    let name = path.file_name()?.to_str()?;
    ENDINGS.into_iter().find_map(|ending| Some((name.strip_suffix(ending)?, ending)))
}

/// The volumes in a folder, in the order of their names.
fn volumes(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| split(path).is_some()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::PhantomFormat;

    fn made(format: PhantomFormat, layout: PhantomLayout) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let small = PhantomSpec { count: 3, size: [8, 8, 4], ..PhantomSpec::default() };
        let spec = PhantomSpec { format, layout, ..small };
        spec.make(folder.path(), |_| true).unwrap();
        folder
    }

    #[test]
    fn volumes_find_their_masks_by_name_in_both_layouts() {
        for layout in [PhantomLayout::Folders, PhantomLayout::NnUnet] {
            let folder = made(PhantomFormat::NiftiGz, layout);
            let cases = Cases::find(folder.path()).unwrap();
            assert_eq!(cases.list.len(), 3);
            for (place, CaseFiles(image, mask)) in cases.list.iter().enumerate() {
                let name = format!("case_{place:04}");
                assert!(image.display().to_string().contains(&name), "{image:?}");
                assert!(mask.ends_with(format!("{name}.nii.gz")), "{mask:?}");
            }
            assert_eq!(cases.plain_reader(), "torch+nibabel");
        }
        let folder = made(PhantomFormat::NrrdRaw, PhantomLayout::Folders);
        assert_eq!(Cases::find(folder.path()).unwrap().plain_reader(), "torch+pynrrd");
    }

    #[test]
    fn what_has_no_mask_or_several_channels_is_said() {
        let folder = made(PhantomFormat::Nifti, PhantomLayout::Folders);
        fs::remove_file(folder.path().join("masks/case_0001.nii")).unwrap();
        assert_eq!(Cases::find(folder.path()).unwrap().list.len(), 2);
        fs::remove_dir_all(folder.path().join("masks")).unwrap();
        let problem = Cases::find(folder.path()).unwrap_err().to_string();
        assert!(problem.contains("holds no volumes with masks"), "{problem}");
        let folder = made(PhantomFormat::Nifti, PhantomLayout::NnUnet);
        fs::write(folder.path().join("imagesTr/case_0001_0001.nii"), "").unwrap();
        let problem = Cases::find(folder.path()).unwrap_err().to_string();
        assert!(problem.contains("case_0001_0001.nii is a second channel"), "{problem}");
    }
}
