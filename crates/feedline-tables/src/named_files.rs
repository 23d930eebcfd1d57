//! Files that rows name: an image's `path`, where its bytes are not in the table.
//!
//! A table is data, and its rows may say anything. They name regular files of at most [`MOST`] bytes, and those of a table in a file only
//! such that are in the folder of that file or in one that the user names. A folder may be a URL; then files are objects, one request each.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use feedline_sources::plain_file::{SourceFile, is_url};

use crate::columns::{TableColumn, TableOptions};
use crate::kind::ValueKind;

/// Bytes of the largest file that is read: as many as a folder of images takes.
const MOST: u64 = 256 << 20;

/// How files are found and read that rows name.
#[derive(Debug)]
pub(crate) struct NamedFiles {
    /// What names are relative to.
    base: PathBuf,
    /// What files must be in; `None`: anywhere.
    root: Option<PathBuf>,
}

impl NamedFiles {
    /// For a table in this file, or in memory; `None` where no column could name a file.
    pub(crate) fn of(
        columns: &[TableColumn],
        table: Option<&Path>,
        options: &TableOptions,
    ) -> Option<Arc<NamedFiles>> {
        if !columns.iter().any(|column| column.kind == ValueKind::Picture) {
            return None;
        }
        let folder = table.map(|table| match table.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        });
        let base = options.image_root.as_deref().or(folder);
        let real = |base: &Path| base.canonicalize().unwrap_or_else(|_| base.to_path_buf());
        let root = base.map(real);
        Some(Arc::new(NamedFiles { base: root.clone().unwrap_or_default(), root }))
    }

    /// The bytes of a file, or why there are none.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let told = |error: std::io::Error| error.to_string();
        let mut path = self.base.join(name);
        let is_inside = match is_url(&self.base) {
            // There are no links among objects, so the name says it all.
            true => Path::new(name).components().all(|part| matches!(part, Component::Normal(_))),
            false => {
                path = path.canonicalize().map_err(told)?;
                self.root.as_ref().is_none_or(|root| path.starts_with(root))
            }
        };
        if !is_inside {
            return Err(format!(
                "it is not in `{}`; pass image_root= with the folder that files may be in",
                self.base.display()
            ));
        }
        let (file, stamp) = SourceFile::open(&path).map_err(told)?;
        if stamp.len > MOST {
            return Err(format!("it has {} bytes, more than {MOST}", stamp.len));
        }
        let mut bytes = Vec::new();
        file.append_whole(&mut bytes, stamp.len).map_err(told)?;
        Ok(bytes)
    }
}
