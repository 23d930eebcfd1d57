//! A folder of files, one per sample: by classes as torchvision's `ImageFolder` has them, or flat. Or files
//! that are given one by one ([`Files::listed`]).
//!
//! ```text
//! train/            the folder that is opened
//!   cat/            a class: number 0, because its name comes first
//!     1.jpg         samples, in the order of their names
//!     2.JPG
//!     more/3.png    folders within a class belong to it
//!   dog/            class 1
//!     1.jpg
//! ```
//!
//! What is listed, in which order and with which number, is what `ImageFolder` lists, with these
//! exceptions:
//!
//! | what | here | `ImageFolder` |
//! | --- | --- | --- |
//! | names that begin with a dot | skipped, files and folders | taken (`._x.jpg` of macOS, `.git`) |
//! | `.gif` | taken | left out |
//! | pipes, sockets, devices | skipped | opened, which may never end |
//! | links to a folder around them, and a second way to a folder of the class | not followed | followed, 40 levels deep |
//! | folders that may not be listed | an error | skipped |
//!
//! Links to files and folders are followed. A link that leads nowhere stays a sample: its error
//! tells of it, silence would not. A class without files is an error, unless
//! [`FileOptions::allow_empty`] is set; then it keeps its number.
//!
//! Names are bytes: those that are not UTF-8 are read like any other (in the order of Python's
//! `os.fsdecode`), and escaped in messages.

#[cfg(feature = "stores")]
mod far;
mod listing;
mod name_order;
mod walk;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use feedline_core::{Cause, SampleIndex};

use crate::read_at::{append_at, open_plain, read_exact_at};
use crate::source_file::on_disk;
use crate::stamp::Stamp;
use crate::{Encoded, SourceError, Watch, escaped};
use listing::Listing;

/// What counts as a sample.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// Endings of the names that count, compared without regard to case.
    pub extensions: Vec<String>,
    /// Whether the folders in the folder are classes. If not, all files below it are samples without
    /// a label.
    pub classes: bool,
    /// Whether a class may have no files.
    pub allow_empty: bool,
    /// A file with more bytes is an error of its sample, not read.
    pub max_bytes: u64,
}

/// The endings that torchvision takes, and `.gif`.
pub const IMAGES: [&str; 10] =
    [".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif"];

/// The bytes a sample may have where nothing else is said: 256 MiB.
pub const MAX_BYTES: u64 = 256 << 20;

impl Default for FileOptions {
    /// Pictures in class folders.
    fn default() -> FileOptions {
        let extensions = IMAGES.iter().map(|ending| (*ending).to_string()).collect();
        FileOptions { extensions, classes: true, allow_empty: false, max_bytes: MAX_BYTES }
    }
}

/// The files of a folder as encoded samples: one part, `image`, and the class as label.
///
/// Only names are kept, about 30 bytes per file: a million files need some 30 MB.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    listing: Listing,
    /// `None` without classes.
    classes: Option<Vec<OsString>>,
    parts: [String; 1],
    max_bytes: u64,
    /// Set where the files are objects of a store.
    #[cfg(feature = "stores")]
    far: Option<crate::objects::ObjectTable>,
}

impl Files {
    /// Lists the folder, with as many threads as there are cores; `watch` is told how many files were
    /// found so far.
    pub fn open(
        root: impl Into<PathBuf>,
        options: &FileOptions,
        watch: Watch<'_>,
    ) -> Result<Files, SourceError> {
        let root = root.into();
        let extensions = || options.extensions.join(", ");
        let rule = walk::Rule::new(&options.extensions);
        let cannot_find = |source| SourceError::Store(source);
        #[cfg(feature = "stores")]
        let far = match crate::objects::address(&root)? {
            Some(address) => Some(far::open(&address, options.classes, &rule, watch)?),
            None => None,
        };
        #[cfg(not(feature = "stores"))]
        let far: Option<(Listing, Option<Vec<OsString>>, ())> = None;
        let (listing, classes, far) = match far {
            Some((listing, classes, table)) => (listing, classes, Some(table)),
            None => {
                let folder = on_disk(&root).map_err(cannot_find)?;
                let classes =
                    if options.classes { Some(walk::classes(&folder, watch)?) } else { None };
                (walk::walk(&folder, classes.as_deref(), &rule, watch)?, classes, None)
            }
        };
        #[cfg(not(feature = "stores"))]
        let _: Option<()> = far;
        let root =
            if root.starts_with("file:") { on_disk(&root).map_err(cannot_find)? } else { root };
        if classes.as_ref().is_some_and(Vec::is_empty) {
            return Err(SourceError::NoClasses { path: root });
        }
        let empty = match &classes {
            Some(classes) if !options.allow_empty => listing.empty_classes(classes.len()),
            _ => Vec::new(),
        };
        if let (Some(classes), false) = (&classes, empty.is_empty()) {
            let name = |class: &usize| escaped(classes[*class].as_encoded_bytes()).to_string();
            let mut names: Vec<String> = empty.iter().take(10).map(name).collect();
            if empty.len() > names.len() {
                names.push(format!("and {} more", empty.len() - names.len()));
            }
            let (classes, extensions) = (names.join(", "), extensions());
            return Err(SourceError::EmptyClasses { path: root, classes, extensions });
        }
        if listing.is_empty() && !options.allow_empty {
            return Err(SourceError::NoFiles { path: root, extensions: extensions() });
        }
        let (parts, max_bytes) = (["image".to_string()], options.max_bytes);
        Ok(Files {
            root,
            listing,
            classes,
            parts,
            max_bytes,
            #[cfg(feature = "stores")]
            far,
        })
    }

    /// The given files, in the order they are given in, without classes. Nobody looks whether they are there.
    pub fn listed<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>, max_bytes: u64) -> Files {
        let mut found: Vec<walk::Found> = Vec::new();
        for path in paths {
            let path = path.as_ref();
            // What has no name, such as `/`, is its own folder, and cannot be read.
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let folder = if name.is_empty() { Some(path) } else { path.parent() };
            let folder = folder.map_or(&[][..], |folder| folder.as_os_str().as_encoded_bytes());
            let fits = |last: &walk::Found| {
                last.path == folder && last.names.len() + name.len() <= u32::MAX as usize
            };
            if !found.last().is_some_and(fits) {
                found.push(walk::Found {
                    class: 0,
                    path: folder.to_vec(),
                    names: Vec::new(),
                    ends: Vec::new(),
                });
            }
            if let Some(last) = found.last_mut() {
                last.names.extend(name);
                last.ends.push(last.names.len() as u32);
            }
        }
        let (root, parts) = (PathBuf::new(), ["image".to_string()]);
        Files {
            root,
            listing: Listing::of(found),
            classes: None,
            parts,
            max_bytes,
            #[cfg(feature = "stores")]
            far: None,
        }
    }

    /// The folder that was opened; an empty path where files were given one by one.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file of a sample; none beyond the last.
    #[must_use]
    pub fn path(&self, index: SampleIndex) -> Option<PathBuf> {
        let file = self.listing.get(index.0)?;
        let mut path = self.root.clone();
        path.push(walk::path_of(file.folder));
        path.push(walk::path_of(file.name));
        Some(path)
    }

    /// Bytes of memory that the names take.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        #[cfg(feature = "stores")]
        let far = self.far.as_ref().map_or(0, crate::objects::ObjectTable::heap_bytes);
        #[cfg(not(feature = "stores"))]
        let far = 0;
        self.listing.heap_bytes() + far
    }

    /// Refuses what has more bytes than a sample may have.
    fn check_bytes(&self, length: u64) -> Result<(), Cause> {
        let most = self.max_bytes;
        if length <= most {
            return Ok(());
        }
        Err(format!(
            "the file has {length} bytes, more than the {most} that a sample may have; raise \
             max_bytes if it is what it should be"
        )
        .into())
    }

    /// A sample's name below the opened folder, where the files are objects.
    #[cfg(feature = "stores")]
    fn far_name(&self, index: SampleIndex) -> Option<String> {
        let file = self.listing.get(index.0)?;
        let (folder, name) =
            (std::str::from_utf8(file.folder).ok()?, std::str::from_utf8(file.name).ok()?);
        Some(if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") })
    }
}

impl Encoded for Files {
    fn len(&self) -> u64 {
        self.listing.len()
    }

    fn parts(&self) -> &[String] {
        &self.parts
    }

    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        #[cfg(feature = "stores")]
        if let Some(far) = &self.far {
            let name =
                self.far_name(index).ok_or_else(|| format!("there is no sample {}", index.0))?;
            self.check_bytes(far.size(index.0).unwrap_or(0))?;
            return Ok(far.read(index.0, &name, raw)?);
        }
        let path = self.path(index).ok_or_else(|| format!("there is no sample {}", index.0))?;
        // The sample's error names its file.
        let (file, meta) = open_plain(&path).map_err(|e| format!("cannot open it: {e}"))?;
        let length = meta.len();
        self.check_bytes(length)?;
        let read = append_at(&file, raw, 0, length as usize);
        // Of a file that somebody writes at the moment it would be a part.
        let change = Stamp::of(&meta).change(&file);
        if let Some(what) = change.map_err(|e| format!("cannot read it: {e}"))? {
            return Err(format!(
                "the file has changed while it was read: {what}; let the program that writes it end \
                 first"
            )
            .into());
        }
        read.map_err(|e| format!("cannot read it: {e}"))?;
        // Files of /proc and the like do not know how long they are.
        if length == 0 && read_exact_at(&file, &mut [0], 0).is_ok() {
            return Err(
                "the file says that it has 0 bytes, and has more: it is none that is stored \
                        on a disk; copy its content to one that is"
                    .into(),
            );
        }
        Ok(())
    }

    fn part<'a>(&'a self, _: SampleIndex, raw: &'a [u8], _: usize) -> Result<&'a [u8], Cause> {
        Ok(raw)
    }

    fn label(&self, index: SampleIndex) -> Option<i64> {
        self.classes.as_ref()?;
        self.listing.get(index.0).map(|file| i64::from(file.class))
    }

    fn classes(&self) -> Option<&[OsString]> {
        self.classes.as_deref()
    }

    #[cfg(feature = "stores")]
    fn look_ahead(&self) -> usize {
        self.far.as_ref().map_or(0, crate::objects::ObjectTable::look_ahead)
    }

    #[cfg(feature = "stores")]
    fn expect(&self, indices: &[SampleIndex]) {
        let Some(far) = &self.far else { return };
        for index in indices {
            let fits = far.size(index.0).is_some_and(|size| size <= self.max_bytes);
            if let Some(name) = self.far_name(*index).filter(|_| fits) {
                far.expect(index.0, &name);
            }
        }
    }

    /// The file's size, asked for when it is wanted: listing does not ask for a million sizes.
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        #[cfg(feature = "stores")]
        if let Some(far) = &self.far {
            return far.size(index.0);
        }
        fs::metadata(self.path(index)?).ok().map(|meta| meta.len())
    }

    fn origin(&self, index: SampleIndex) -> Option<String> {
        let path = self.path(index)?;
        Some(escaped(path.as_os_str().as_encoded_bytes()).to_string())
    }
}
