//! The same of objects: their keys are the paths.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;

use feedline_store::{Address, Entry, StoreError};

use super::listing::Listing;
use super::name_order::compare;
use super::walk::{Found, Rule};
use crate::objects::{self, ObjectTable, ObjectVersion};
use crate::{SourceError, Watch};

/// What was found in one folder, as the store tells it.
#[derive(Default)]
struct FarFolder {
    names: Vec<u8>,
    ends: Vec<u32>,
    objects: Vec<ObjectVersion>,
}

/// All objects below an address that `rule` takes, in the order that files would have: those of the classes, or all
/// as class 0. Names that begin with a dot are skipped.
pub(super) fn open(
    address: &Address,
    with_classes: bool,
    rule: &Rule,
    watch: Watch<'_>,
) -> Result<(Listing, Option<Vec<OsString>>, ObjectTable), SourceError> {
    let mut folders: HashMap<String, FarFolder> = HashMap::new();
    let mut classes: BTreeSet<String> = BTreeSet::new();
    let mut too_many = false;
    objects::list(address, watch, |entry: Entry| {
        if entry.name.split('/').any(|part| part.starts_with('.')) {
            return;
        }
        let (folder, name) = entry.name.rsplit_once('/').unwrap_or(("", &entry.name));
        if with_classes {
            // What lies beside the classes belongs to none.
            let Some(class) = folder.split('/').next().filter(|class| !class.is_empty()) else {
                return;
            };
            if !classes.contains(class) {
                classes.insert(class.to_string());
            }
        }
        if !rule.takes(name.as_bytes()) {
            return;
        }
        if !folders.contains_key(folder) {
            folders.insert(folder.to_string(), FarFolder::default());
        }
        let Some(here) = folders.get_mut(folder) else { return };
        here.names.extend_from_slice(name.as_bytes());
        match u32::try_from(here.names.len()) {
            Ok(end) => here.ends.push(end),
            Err(_) => too_many = true,
        }
        here.objects.push(ObjectVersion::from(&entry));
    })?;
    if too_many {
        return Err(SourceError::TooManySamples);
    }
    let classes: Vec<String> = classes.into_iter().collect();
    let class_of = |folder: &str| {
        let class = folder.split('/').next().unwrap_or_default();
        classes.binary_search_by(|known| known.as_str().cmp(class)).unwrap_or(0) as u32
    };
    let mut sorted: Vec<(u32, String, FarFolder)> = folders
        .into_iter()
        .map(|(path, folder)| (if with_classes { class_of(&path) } else { 0 }, path, folder))
        .collect();
    // As `sorted(os.walk(...))`: by the whole path, in which `/` is a letter like any other.
    sorted.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| compare(a.1.as_bytes(), b.1.as_bytes())));
    let mut all =
        Vec::with_capacity(sorted.iter().map(|(_, _, folder)| folder.objects.len()).sum());
    let mut found = Vec::with_capacity(sorted.len());
    for (class, path, folder) in sorted {
        let folder = folder.in_order();
        if let Some(name) = folder.twice() {
            let name = String::from_utf8_lossy(name);
            let parts = [address.key.trim_end_matches('/'), &path, &name];
            let key: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let url = format!("{}/{}", address.root, key.join("/"));
            return Err(objects::refused(StoreError::told_twice(url)));
        }
        let FarFolder { names, ends, objects } = folder;
        all.extend(objects);
        found.push(Found { class, path: path.into_bytes(), names, ends });
    }
    let table = ObjectTable::new(address, all)?;
    let classes = with_classes.then(|| classes.into_iter().map(OsString::from).collect());
    Ok((Listing::of(found), classes, table))
}

impl FarFolder {
    fn name(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        &self.names[begin..self.ends[at] as usize]
    }

    /// Sorted by name. Stores tell them so, but not all promise it.
    fn in_order(self) -> FarFolder {
        let mut order: Vec<usize> = (0..self.ends.len()).collect();
        if order.is_sorted_by(|a, b| compare(self.name(*a), self.name(*b)).is_le()) {
            return self;
        }
        order.sort_by(|a, b| compare(self.name(*a), self.name(*b)));
        let mut sorted = FarFolder::default();
        for at in order {
            sorted.names.extend_from_slice(self.name(at));
            sorted.ends.push(sorted.names.len() as u32);
            sorted.objects.push(self.objects[at]);
        }
        sorted
    }

    /// A name that comes twice, if there is one, of names in order.
    fn twice(&self) -> Option<&[u8]> {
        let at = (1..self.ends.len()).find(|at| self.name(*at) == self.name(at - 1))?;
        Some(self.name(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> FarFolder {
        let mut folder = FarFolder::default();
        for (number, name) in names.iter().enumerate() {
            folder.names.extend_from_slice(name.as_bytes());
            folder.ends.push(folder.names.len() as u32);
            folder.objects.push(ObjectVersion { size: number as u64, version: 1 });
        }
        folder
    }

    #[test]
    fn names_come_in_order_with_their_objects_and_one_that_comes_twice_is_found() {
        let sorted = folder(&["b", "c", "", "a"]).in_order();
        let names: Vec<&[u8]> = (0..4).map(|at| sorted.name(at)).collect();
        assert_eq!(names, [b"" as &[u8], b"a", b"b", b"c"]);
        let objects: Vec<u64> = sorted.objects.iter().map(|object| object.size).collect();
        assert_eq!(objects, [2, 3, 0, 1]);
        assert_eq!(sorted.twice(), None);
        // A page that comes a second time, after others.
        let again = folder(&["a", "b", "c", "a", "b"]).in_order();
        assert_eq!(again.twice(), Some(b"a" as &[u8]));
    }
}
