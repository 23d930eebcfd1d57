//! Walking the folder: level by level, all folders of a level at once.
//!
//! A level's folders are in order, by class and path, and so is what they contain; whichever thread
//! lists which, the outcome is the same. A folder is known by device and inode. Each class keeps the
//! set of those it has seen, which the opened folder and the class's own begin; what is in it
//! already is not walked again, so every chain of links ends.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::listing::Listing;
use super::name_order::compare;
use crate::crowd::{NAMES_PER_LOOK, Stop, Watch, each};
use crate::{SourceError, escaped};

/// Which names count.
pub(super) struct Rule {
    /// In lower case.
    endings: Vec<Vec<u8>>,
}

impl Rule {
    pub(super) fn new(extensions: &[String]) -> Rule {
        Rule { endings: extensions.iter().map(|e| e.to_lowercase().into_bytes()).collect() }
    }

    pub(super) fn takes(&self, name: &[u8]) -> bool {
        self.endings.iter().any(|ending| {
            let from = name.len().checked_sub(ending.len());
            from.is_some_and(|from| name[from..].eq_ignore_ascii_case(ending))
        })
    }
}

/// The files of one folder.
pub(super) struct Found {
    pub(super) class: u32,
    /// From the opened folder on.
    pub(super) path: Vec<u8>,
    /// The names, sorted, one behind the other.
    pub(super) names: Vec<u8>,
    /// Where each ends.
    pub(super) ends: Vec<u32>,
}

/// A folder to be listed.
struct Ahead {
    class: u32,
    path: Vec<u8>,
}

/// A folder within a listed one: its name, and what it is known by.
type Subfolder = (Vec<u8>, Identity);

#[derive(Copy, Clone, PartialEq, Eq, Hash)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(meta: &Metadata) -> Identity {
        use std::os::unix::fs::MetadataExt;
        Identity(meta.dev(), meta.ino())
    }
    /// Without inodes every folder is a new one; there loops end at the system's limit of path lengths.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Identity {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Identity(NEXT.fetch_add(1, Ordering::Relaxed), 0)
    }
}

/// The class folders, sorted.
pub(super) fn classes(root: &Path, watch: Watch<'_>) -> Result<Vec<OsString>, SourceError> {
    let mut names = Vec::new();
    for (seen, entry) in fs::read_dir(root).map_err(cannot("list", root))?.enumerate() {
        if seen % NAMES_PER_LOOK == NAMES_PER_LOOK - 1 && watch(0).is_break() {
            return Err(SourceError::Interrupted);
        }
        let entry = entry.map_err(cannot("list", root))?;
        let name = entry.file_name();
        if !is_hidden(name.as_encoded_bytes()) && is_folder(&entry) {
            names.push(name);
        }
    }
    names.sort_unstable_by(|a, b| compare(a.as_encoded_bytes(), b.as_encoded_bytes()));
    if names.is_empty() {
        return Err(SourceError::NoClasses { path: root.to_path_buf() });
    }
    Ok(names)
}

/// All files below `root` that `rule` takes: those of the classes, or all as class 0.
pub(super) fn walk(
    root: &Path,
    classes: Option<&[OsString]>,
    rule: &Rule,
    watch: Watch<'_>,
) -> Result<Listing, SourceError> {
    let identity = |path: &Path| fs::metadata(path).map(|meta| Identity::of(&meta));
    let around = identity(root).map_err(cannot("list", root))?;
    let whole = [OsString::new()];
    let tops = classes.unwrap_or(&whole);
    let mut level = Vec::with_capacity(tops.len());
    let mut seen = Vec::with_capacity(tops.len());
    for (class, name) in tops.iter().enumerate() {
        let own = identity(&root.join(name)).map_err(cannot("list", &root.join(name)))?;
        seen.push(HashSet::from([around, own]));
        let class = u32::try_from(class).map_err(|_| SourceError::TooManySamples)?;
        level.push(Ahead { class, path: name.as_encoded_bytes().to_vec() });
    }
    let (files, mut found) = (AtomicU64::new(0), Vec::new());
    while !level.is_empty() {
        let listed = each(level.len(), &files, watch, |job, stop| {
            list(root, &level[job], rule, &files, stop)
        })?;
        let mut next = Vec::new();
        for (folder, (here, inner)) in level.into_iter().zip(listed) {
            for (name, identity) in inner {
                if seen[folder.class as usize].insert(identity) {
                    let path = joined(&folder.path, &name);
                    next.push(Ahead { class: folder.class, path });
                }
            }
            found.push(here);
        }
        level = next;
    }
    // As `sorted(os.walk(...))`: by the whole path, in which `/` is a letter like any other.
    found.sort_by(|a, b| a.class.cmp(&b.class).then_with(|| compare(&a.path, &b.path)));
    Ok(Listing::of(found))
}

/// The files and folders directly in a folder, sorted.
fn list(
    root: &Path,
    folder: &Ahead,
    rule: &Rule,
    files: &AtomicU64,
    stop: &Stop<'_>,
) -> Result<(Found, Vec<Subfolder>), SourceError> {
    let path = root.join(path_of(&folder.path));
    let (mut names, mut places, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    for entry in fs::read_dir(&path).map_err(cannot("list", &path))? {
        stop.check()?;
        let entry = entry.map_err(cannot("list", &path))?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if is_hidden(name) {
            continue;
        }
        let kind = entry.file_type().map_err(cannot("list", &path))?;
        // Links are looked through; everything else is what it says.
        let meta = if kind.is_symlink() { fs::metadata(entry.path()).ok() } else { None };
        let is_dir = meta.as_ref().map_or(kind.is_dir(), Metadata::is_dir);
        if is_dir {
            let meta = match meta {
                Some(meta) => meta,
                None => fs::metadata(entry.path()).map_err(cannot("list", &entry.path()))?,
            };
            inner.push((name.to_vec(), Identity::of(&meta)));
            continue;
        }
        let leads_nowhere = kind.is_symlink() && meta.is_none();
        let is_file = meta.as_ref().map_or(kind.is_file(), Metadata::is_file);
        if (is_file || leads_nowhere) && rule.takes(name) {
            let start = offset(names.len(), &path)?;
            names.extend_from_slice(name);
            places.push((start, offset(names.len(), &path)?));
            files.fetch_add(1, Ordering::Relaxed);
        }
    }
    let name = |(start, end): &(u32, u32)| &names[*start as usize..*end as usize];
    places.sort_unstable_by(|a, b| compare(name(a), name(b)));
    inner.sort_unstable_by(|(a, _), (b, _)| compare(a, b));
    let mut sorted = Vec::with_capacity(names.len());
    let mut ends = Vec::with_capacity(places.len());
    for place in &places {
        sorted.extend_from_slice(name(place));
        ends.push(sorted.len() as u32);
    }
    let (class, path) = (folder.class, folder.path.clone());
    Ok((Found { class, path, names: sorted, ends }, inner))
}

/// Names of a folder are counted in 32 bits.
fn offset(bytes: usize, path: &Path) -> Result<u32, SourceError> {
    let too_many = || io::Error::new(io::ErrorKind::FileTooLarge, "its names exceed 4 GiB");
    u32::try_from(bytes).map_err(|_| cannot("list", path)(too_many()))
}

fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".")
}

fn is_folder(entry: &fs::DirEntry) -> bool {
    match entry.file_type() {
        Ok(kind) if kind.is_symlink() => fs::metadata(entry.path()).is_ok_and(|meta| meta.is_dir()),
        Ok(kind) => kind.is_dir(),
        Err(_) => false,
    }
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let between: &[u8] = if path.is_empty() { b"" } else { b"/" };
    [path, between, name].concat()
}

fn cannot(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SourceError {
    // Escaped here, because the error shows its path as text.
    let path = PathBuf::from(escaped(path.as_os_str().as_encoded_bytes()).to_string());
    move |source| SourceError::Io { doing, path, source }
}

/// A stored name as the system takes it.
pub(super) fn path_of(name: &[u8]) -> &OsStr {
    #[cfg(unix)]
    return std::os::unix::ffi::OsStrExt::from_bytes(name);
    #[cfg(not(unix))]
    // SAFETY: stored names are the encoded bytes of whole names that this system gave, joined by `/`.
    return unsafe { OsStr::from_encoded_bytes_unchecked(name) };
}
