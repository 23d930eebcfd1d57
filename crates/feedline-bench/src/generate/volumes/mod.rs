//! CT-like volumes with the organs marked in a mask.
//!
//! | file | what it is |
//! | --- | --- |
//! | `phantom.rs` | the body: Hounsfield units and labels, plane by plane |
//! | `geometry.rs` | where voxels are |
//! | `nrrd.rs`, `nifti.rs` | headers |
//! | `file.rs` | plain or through gzip |

mod file;
mod geometry;
mod nifti;
mod nrrd;
mod phantom;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::file::VoxelWriter;
use self::geometry::Frame;
use self::phantom::{LABELS, Phantom, Plane};
use super::{all_cores, cannot};
use crate::experiment::ExperimentError;

/// The longest side: NIfTI-1 counts voxels in sixteen bits.
const LONGEST: u32 = 32_767;

/// The most voxels of a volume.
const MOST_VOXELS: u64 = 1 << 31;

/// How volumes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum PhantomFormat {
    /// NRRD, voxels through gzip.
    #[serde(rename = "nrrd")]
    Nrrd,
    /// NRRD, voxels as they are.
    #[serde(rename = "nrrd-raw")]
    NrrdRaw,
    /// NIfTI-1 through gzip (`.nii.gz`).
    #[serde(rename = "nii.gz")]
    NiftiGz,
    /// NIfTI-1 as it is (`.nii`).
    #[serde(rename = "nii")]
    Nifti,
}

impl PhantomFormat {
    /// All of them, by name.
    pub const ALL: [(&str, PhantomFormat); 4] = [
        ("nrrd", Self::Nrrd),
        ("nrrd-raw", Self::NrrdRaw),
        ("nii.gz", Self::NiftiGz),
        ("nii", Self::Nifti),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nrrd => "nrrd",
            Self::NrrdRaw => "nrrd-raw",
            Self::NiftiGz => "nii.gz",
            Self::Nifti => "nii",
        }
    }

    /// How its files' names end, with the dot.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Nrrd | Self::NrrdRaw => ".nrrd",
            Self::NiftiGz => ".nii.gz",
            Self::Nifti => ".nii",
        }
    }

    fn header(self, frame: &Frame, kind: VoxelKind) -> Vec<u8> {
        match self {
            Self::Nrrd => nrrd::header(frame, kind, "gzip"),
            Self::NrrdRaw => nrrd::header(frame, kind, "raw"),
            Self::NiftiGz | Self::Nifti => nifti::header(frame, kind),
        }
    }
}

impl FromStr for PhantomFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| format).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            format!("there is no format `{text}`; there are: {names}")
        })
    }
}

/// In which folders volumes and masks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PhantomLayout {
    /// `images/case_0000.nrrd` and `masks/case_0000.nrrd`.
    Folders,
    /// nnU-Net's: `imagesTr/case_0000_0000.nrrd`, `labelsTr/case_0000.nrrd`, and a `dataset.json` that nnU-Net reads.
    NnUnet,
}

impl PhantomLayout {
    /// Folders of volumes and of masks.
    pub fn folders(self) -> (&'static str, &'static str) {
        match self {
            Self::Folders => ("images", "masks"),
            Self::NnUnet => ("imagesTr", "labelsTr"),
        }
    }
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VoxelKind {
    /// Hounsfield units, int16.
    Units,
    /// Labels, uint8.
    Labels,
}

/// A set of volumes to be made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhantomSpec {
    /// How many.
    pub count: u64,
    /// Voxels along x, y and z.
    pub size: [u32; 3],
    /// Millimetres from voxel to voxel along x, y and z.
    pub spacing: [f64; 3],
    /// How they are written.
    pub format: PhantomFormat,
    /// Where they are put.
    pub layout: PhantomLayout,
    /// The same seed gives the same bytes.
    pub seed: u64,
}

impl Default for PhantomSpec {
    fn default() -> Self {
        Self {
            count: 32,
            size: [128, 128, 64],
            spacing: [0.8, 0.8, 2.5],
            format: PhantomFormat::Nrrd,
            layout: PhantomLayout::Folders,
            seed: 0,
        }
    }
}

impl PhantomSpec {
    /// The folder's name below a cache of data sets.
    pub fn folder_name(&self) -> String {
        let Self { count, size, spacing, format, layout, seed } = self;
        let size = size.map(|it| it.to_string()).join("x");
        let mut name = format!("volumes-{count}-{size}-{}-seed{seed}", format.name());
        if *layout == PhantomLayout::NnUnet {
            name += "-nnunet";
        }
        if *spacing != Self::default().spacing {
            name += &format!("-{}mm", spacing.map(|it| it.to_string()).join("x"));
        }
        name
    }

    /// Makes the set unless it is there, and returns its size in bytes. `progress` is told how many volumes are
    /// done and answers whether to go on.
    ///
    /// # Errors
    ///
    /// If sizes cannot be, the folder cannot be written, or `progress` said to stop.
    pub fn make(
        &self,
        folder: &Path,
        mut progress: impl FnMut(u64) -> bool,
    ) -> Result<u64, ExperimentError> {
        self.check()?;
        let note = folder.join("dataset.json");
        if let Some(bytes) = self.bytes_there(&note) {
            return Ok(bytes);
        }
        let (images, masks) = self.layout.folders();
        for path in [folder.join(images), folder.join(masks)] {
            fs::create_dir_all(&path).map_err(|e| cannot("create the folder", &path, e))?;
        }
        let make = |index| self.make_one(folder, index);
        let bytes = all_cores::make_each(self.count, make, &mut progress)?;
        let text = self.note(bytes).to_string();
        fs::write(&note, text + "\n").map_err(|e| cannot("write", &note, e))?;
        Ok(bytes)
    }

    /// Refuses sizes and spacings that no volume has.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let refuse = |problem| Err(ExperimentError::Setting { problem });
        let [x, y, z] = self.size;
        if self.size.iter().any(|side| !(1..=LONGEST).contains(side)) {
            return refuse(format!(
                "a volume has 1 to {LONGEST} voxels along a side, got {x}x{y}x{z}"
            ));
        }
        let voxels = self.size.iter().map(|side| u64::from(*side)).product::<u64>();
        if voxels > MOST_VOXELS {
            return refuse(format!(
                "a volume of {x}x{y}x{z} has {voxels} voxels; it may have {MOST_VOXELS}"
            ));
        }
        if self.spacing.iter().any(|it| !(1e-3..=1e3).contains(it)) {
            let [x, y, z] = self.spacing;
            return refuse(format!("spacing is from 0.001 to 1000 mm, got {x}x{y}x{z}"));
        }
        Ok(())
    }

    /// What the set is: in nnU-Net's words where it is nnU-Net's, which passes over ours.
    fn note(&self, bytes: u64) -> Value {
        let mut note = json!({"spec": self, "bytes": bytes});
        if self.layout == PhantomLayout::NnUnet {
            let background = ("background".to_owned(), json!(0));
            let labels = LABELS.iter().zip(1..).map(|(name, label)| ((*name).into(), json!(label)));
            let labels: Map<String, Value> = [background].into_iter().chain(labels).collect();
            note["channel_names"] = json!({"0": "CT"});
            note["labels"] = Value::Object(labels);
            note["numTraining"] = json!(self.count);
            note["file_ending"] = json!(self.format.ending());
        }
        note
    }

    fn bytes_there(&self, note: &Path) -> Option<u64> {
        #[derive(Deserialize)]
        struct PhantomNote {
            spec: PhantomSpec,
            bytes: u64,
        }
        let note: PhantomNote = serde_json::from_slice(&fs::read(note).ok()?).ok()?;
        (note.spec == *self).then_some(note.bytes)
    }

    fn make_one(&self, folder: &Path, index: u64) -> Result<u64, ExperimentError> {
        let (image, mask) = self.paths(folder, index);
        let frame = Frame { size: self.size.map(|it| it as usize), spacing: self.spacing };
        let create = |path: &Path, kind| {
            VoxelWriter::create(path, self.format, &self.format.header(&frame, kind))
                .map_err(|e| cannot("create", path, e))
        };
        let (mut units, mut labels) =
            (create(&image, VoxelKind::Units)?, create(&mask, VoxelKind::Labels)?);
        let mut phantom = Phantom::new(frame.size, self.seed, index);
        let (mut plane, mut bytes) = (Plane::default(), Vec::new());
        for z in 0..frame.size[2] {
            phantom.draw(z, &mut plane);
            bytes.clear();
            bytes.extend(plane.units.iter().flat_map(|it| it.to_le_bytes()));
            units.write(&bytes).map_err(|e| cannot("write", &image, e))?;
            labels.write(&plane.labels).map_err(|e| cannot("write", &mask, e))?;
        }
        let finish = |file: VoxelWriter, path: &Path| -> Result<u64, ExperimentError> {
            file.finish().map_err(|e: io::Error| cannot("write", path, e))
        };
        Ok(finish(units, &image)? + finish(labels, &mask)?)
    }

    fn paths(&self, folder: &Path, index: u64) -> (PathBuf, PathBuf) {
        let (images, masks) = self.layout.folders();
        let ending = self.format.ending();
        let channel = match self.layout {
            PhantomLayout::Folders => "",
            PhantomLayout::NnUnet => "_0000",
        };
        let image = folder.join(images).join(format!("case_{index:04}{channel}{ending}"));
        (image, folder.join(masks).join(format!("case_{index:04}{ending}")))
    }
}

#[cfg(test)]
#[path = "volumes_test.rs"]
mod tests;
