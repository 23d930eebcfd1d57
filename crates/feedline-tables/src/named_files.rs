//! Files that rows name: an image's `path`, where its bytes are not in the table.
//!
//! A table is data, and its rows may say anything. They name regular files of at most [`MOST`] bytes, and those of a table in a file only
//! such that are in the folder of that file or in one that the user names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use feedline_sources::plain_file::{append_at, open_plain};

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
        let path = self.base.join(name).canonicalize().map_err(told)?;
        if let Some(root) = self.root.as_ref().filter(|root| !path.starts_with(root)) {
            return Err(format!(
                "it is not in `{}`; pass image_root= with the folder that files may be in",
                root.display()
            ));
        }
        let (file, meta) = open_plain(&path).map_err(told)?;
        if meta.len() > MOST {
            return Err(format!("it has {} bytes, more than {MOST}", meta.len()));
        }
        let mut bytes = Vec::new();
        append_at(&file, &mut bytes, 0, meta.len() as usize).map_err(told)?;
        Ok(bytes)
    }
}
