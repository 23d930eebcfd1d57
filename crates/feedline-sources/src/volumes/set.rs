//! Many volumes, with their headers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use feedline_volume::Geometry;

use super::error::{VolumeError, VolumeProblem, shown};
use super::file::VolumeFile;
use super::header::VolumeHeader;
use super::header_table::{HeaderTable, KeptHeader, counts};
use super::{VolumeCache, VolumeOptions, VolumePaths, format};
use crate::SourceError;
use crate::crowd::{Watch, each_far};
use crate::source_file::is_url;
use crate::stamp::Stamp;

/// Files that a thread looks at before it takes others.
const AT_ONCE: usize = 32;

/// Volumes whose headers were read.
///
/// A volume that cannot be read is an error of its sample, and not of the set.
#[derive(Debug)]
pub struct VolumeSet {
    cases: Vec<Result<VolumeCase, Arc<VolumeError>>>,
    paths: Vec<VolumePaths>,
    options: VolumeOptions,
    channels: usize,
    masks: bool,
}

/// The files of one sample, with their headers: images on one grid, and a mask of the same shape.
#[derive(Debug)]
pub struct VolumeCase {
    images: Vec<VolumeFile>,
    mask: Option<VolumeFile>,
}

impl VolumeCase {
    /// The files of the image.
    #[must_use]
    pub fn images(&self) -> &[VolumeFile] {
        &self.images
    }

    /// The file of the mask.
    #[must_use]
    pub fn mask(&self) -> Option<&VolumeFile> {
        self.mask.as_ref()
    }

    /// The shape, and where voxels are: as the first file says.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.images[0].header().geometry()
    }

    /// Channels of all files of the image.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.images.iter().map(|file| file.header().channels()).sum()
    }

    /// Bytes of all numbers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.images.iter().chain(&self.mask).map(|file| file.header().bytes()).sum()
    }
}

impl VolumeSet {
    /// Reads the headers of all volumes, with as many threads as there are cores; `watch` is told how many files were
    /// looked at so far. Those that were read before, and whose files have not changed since, come from
    /// the [cache folder](VolumeOptions::cache).
    ///
    /// Fails if not one volume can be read, with the error of the first, or if some samples have masks and others not.
    pub fn open(
        paths: Vec<VolumePaths>,
        options: &VolumeOptions,
        watch: Watch<'_>,
    ) -> Result<VolumeSet, SourceError> {
        let masks = check(&paths)?;
        // The folder is found once.
        let cache = options.cache_folder().map_or(VolumeCache::Nowhere, VolumeCache::Folder);
        let options = &VolumeOptions { cache, ..options.clone() };
        let headers = headers(&paths, options, watch)?;
        let mut headers = headers.into_iter();
        let mut cases = Vec::with_capacity(paths.len());
        let mut channels = None;
        for sample in &paths {
            let images: Vec<_> = headers.by_ref().take(sample.images.len()).collect();
            let mask = sample.mask.as_ref().and_then(|_| headers.next());
            let case = case(sample, images, mask, options);
            let case = case.and_then(|case| {
                let expected = *channels.get_or_insert(case.channels());
                if case.channels() == expected {
                    return Ok(case);
                }
                let problem = VolumeProblem::OtherChannels { channels: case.channels(), expected };
                Err(Arc::new(VolumeError::new(&sample.images[0], problem)))
            });
            cases.push(case);
        }
        let Some(channels) = channels else {
            let first = cases.into_iter().find_map(Result::err).and_then(Arc::into_inner);
            return Err(
                first.map_or(SourceError::NothingToJoin { what: "volumes" }, SourceError::Volume)
            );
        };
        Ok(VolumeSet { cases, paths, options: options.clone(), channels, masks })
    }

    /// How many samples there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Whether there are none, which cannot be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }

    /// Channels of each image.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Whether samples have masks.
    #[must_use]
    pub fn has_masks(&self) -> bool {
        self.masks
    }

    /// How the volumes are read.
    #[must_use]
    pub fn options(&self) -> &VolumeOptions {
        &self.options
    }

    /// The files of a sample; none beyond the last.
    #[must_use]
    pub fn paths(&self, index: usize) -> Option<&VolumePaths> {
        self.paths.get(index)
    }

    /// A sample, or why it cannot be read; none beyond the last.
    #[must_use]
    pub fn case(&self, index: usize) -> Option<Result<&VolumeCase, &Arc<VolumeError>>> {
        self.cases.get(index).map(Result::as_ref)
    }
}

/// Whether samples have masks: all or none, and all of them images.
fn check(paths: &[VolumePaths]) -> Result<bool, SourceError> {
    let masks = paths.first().is_some_and(|sample| sample.mask.is_some());
    for sample in paths {
        let what = match (&sample.images[..], sample.mask.is_some() == masks) {
            ([], _) => "has no image; name at least one file",
            (_, false) => {
                "has a mask and others have none, or the other way round; give all of them one, or none"
            }
            _ => continue,
        };
        let path = crate::escaped(sample.name.as_bytes()).to_string();
        return Err(SourceError::VolumeLayout { path, what: what.to_string() });
    }
    Ok(masks)
}

type HeaderResult = Result<VolumeHeader, Arc<VolumeError>>;

/// The headers of all files, sample by sample: images, then the mask.
fn headers(
    paths: &[VolumePaths],
    options: &VolumeOptions,
    watch: Watch<'_>,
) -> Result<Vec<HeaderResult>, SourceError> {
    let files: Vec<&Path> = paths
        .iter()
        .flat_map(|sample| sample.images.iter().chain(&sample.mask))
        .map(|path| &**path)
        .collect();
    let table = options
        .cache_folder()
        .map(|folder| HeaderTable::of(&folder, files.iter().copied(), options.root.as_deref()));
    let kept = table.as_ref().and_then(|table| table.read(&files));
    let made = SystemTime::now();
    let seen = AtomicU64::new(0);
    let is_far = files.iter().any(|path| is_url(path));
    let at_once = if is_far { 1 } else { AT_ONCE };
    let jobs = files.len().div_ceil(at_once);
    let read = each_far(is_far, jobs, &seen, watch, |job, stop| {
        let first = job * at_once;
        let mut done = Vec::with_capacity(at_once);
        for (i, path) in files.iter().enumerate().skip(first).take(at_once) {
            stop.check()?;
            let before = kept.as_ref().and_then(|kept| kept[i].as_ref());
            done.push(header(path, before, options));
            seen.fetch_add(1, Ordering::Relaxed);
        }
        Ok(done)
    })?;
    let read: Vec<_> = read.into_iter().flatten().collect();
    let anew = read.iter().any(|one| matches!(one, Ok((_, true))));
    if let (Some(table), true) = (table, anew) {
        let rows: Vec<_> = files
            .iter()
            .zip(&read)
            .map(|(path, one)| (*path, one.as_ref().ok().map(|(kept, _)| kept.clone())))
            .collect();
        table.write(&rows, made);
    }
    Ok(read.into_iter().map(|one| one.map(|(kept, _)| kept.header)).collect())
}

/// The header of a file, and whether it had to be read.
fn header(
    path: &Path,
    kept: Option<&KeptHeader>,
    options: &VolumeOptions,
) -> Result<(KeptHeader, bool), Arc<VolumeError>> {
    // Of a pair of files the header's state counts, and that of the data beside it.
    let own = format::header_path(path);
    let now = Stamp::now(&own).ok();
    if let (Some(kept), Some(now)) = (kept, now)
        && counts(kept, &own, &now)
    {
        return Ok((kept.clone(), false));
    }
    let file = VolumeFile::open(path, options).map_err(Arc::new)?;
    let cannot = |source| {
        let problem = VolumeProblem::Io { doing: "open", source };
        Arc::new(VolumeError::new(path, problem))
    };
    let stamp = match now {
        Some(now) => now,
        None => Stamp::now(&own).map_err(cannot)?,
    };
    Ok((KeptHeader { stamp, header: file.header().clone() }, true))
}

/// Checks that the files of a sample belong together.
fn case(
    paths: &VolumePaths,
    images: Vec<HeaderResult>,
    mask: Option<HeaderResult>,
    options: &VolumeOptions,
) -> Result<VolumeCase, Arc<VolumeError>> {
    let wrong = |path: &Path, problem| Err(Arc::new(VolumeError::new(path, problem)));
    let mut files: Vec<VolumeFile> = Vec::with_capacity(images.len());
    for (path, header) in paths.images.iter().zip(images) {
        let header = header?;
        if let Some(first) = files.first() {
            let (shape, expected) = (header.shape(), first.header().shape());
            let reference = shown(first.path());
            if shape != expected {
                let problem = VolumeProblem::OtherShape { shape, reference, expected };
                return wrong(path, problem);
            }
            let distance = apart(header.geometry(), first.header().geometry());
            let spacing = first.header().geometry().spacing().into_iter().fold(f64::MAX, f64::min);
            // Half a voxel.
            if distance > spacing / 2.0 {
                return wrong(path, VolumeProblem::OtherPlace { distance, reference });
            }
        }
        files.push(VolumeFile::of(path, header, options));
    }
    let mut mask_file = None;
    if let (Some(path), Some(header)) = (&paths.mask, mask) {
        let header = header?;
        let (shape, expected) = (header.shape(), files[0].header().shape());
        if shape != expected {
            let reference = shown(&paths.images[0]);
            return wrong(path, VolumeProblem::OtherShape { shape, reference, expected });
        }
        if header.channels != 1 {
            return wrong(path, VolumeProblem::MaskChannels { channels: header.channels });
        }
        if (header.slope, header.intercept) != (1.0, 0.0) {
            let (slope, intercept) = (header.slope, header.intercept);
            return wrong(path, VolumeProblem::MaskScaled { slope, intercept });
        }
        mask_file = Some(VolumeFile::of(path, header, options));
    }
    Ok(VolumeCase { images: files, mask: mask_file })
}

/// How far the corners of two volumes of one shape are from each other, at most.
fn apart(one: &Geometry, other: &Geometry) -> f64 {
    let last = one.shape().map(|side| side as f64 - 1.0);
    let corners = (0..8).map(|corner| {
        let point =
            std::array::from_fn(|axis| if corner >> axis & 1 == 1 { last[axis] } else { 0.0 });
        let (a, b) = (one.affine().of(point), other.affine().of(point));
        (0..3).map(|axis| (a[axis] - b[axis]).powi(2)).sum::<f64>().sqrt()
    });
    corners.fold(0.0, f64::max)
}
