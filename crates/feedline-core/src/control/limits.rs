//! How much memory this process may use.

use std::path::{Path, PathBuf};

/// Bytes of memory that this process may use: the machine's, or what its control group (version 1 or 2) leaves of
/// them; `None` where nobody tells.
#[must_use]
pub fn usable_memory() -> Option<u64> {
    let group = group_limit(Path::new("/sys/fs/cgroup"), Path::new("/proc/self/cgroup"));
    machine_memory().into_iter().chain(group).min()
}

/// The bytes of memory that the machine has, where it tells.
fn machine_memory() -> Option<u64> {
    #[cfg(unix)]
    {
        // SAFETY: `sysconf` only reads.
        let (pages, bytes) =
            unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
        u64::try_from(pages).ok()?.checked_mul(u64::try_from(bytes).ok()?)
    }
    #[cfg(not(unix))]
    None
}

/// The least of what the group and those above it may use.
///
/// `/proc/self/cgroup` has a line for each hierarchy, `number:controllers:path`; version 2 is `0::path`. Inside
/// a container the path may be that of the host while the mounted tree begins at the container; so each folder of
/// the path that is there counts, and the root.
fn group_limit(mounted: &Path, own: &Path) -> Option<u64> {
    let own = std::fs::read_to_string(own).ok()?;
    let mut least: Option<u64> = None;
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, file): (PathBuf, _) = match controllers {
            "" => (mounted.to_path_buf(), "memory.max"),
            some if some.split(',').any(|controller| controller == "memory") => {
                (mounted.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut folder = Some(Path::new(path.trim_start_matches('/')));
        while let Some(below) = folder {
            let limit = std::fs::read_to_string(root.join(below).join(file)).ok();
            // "max" is no number: no limit.
            let limit = limit.and_then(|limit| limit.trim().parse().ok());
            least = least.into_iter().chain(limit).min();
            folder = below.parent();
        }
    }
    least
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A tree of groups with these files, and the process in this line's group.
    fn limit(files: &[(&str, &str)], line: &str) -> Option<u64> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("groups").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let own = folder.path().join("cgroup");
        std::fs::write(&own, line).unwrap();
        group_limit(&folder.path().join("groups"), &own)
    }

    #[test]
    fn the_tightest_group_on_the_way_to_the_root_counts() {
        let files = [("memory.max", "max"), ("a/memory.max", "500\n"), ("a/b/memory.max", "900\n")];
        assert_eq!(limit(&files, "0::/a/b\n"), Some(500));
        assert_eq!(limit(&files, "0::/\n"), None);
    }

    #[test]
    fn groups_of_version_1_are_read_where_their_controller_is_mounted() {
        let files = [("memory/x/memory.limit_in_bytes", "700\n")];
        assert_eq!(limit(&files, "3:cpu:/\n9:memory:/x\n0::/\n"), Some(700));
    }

    #[test]
    fn a_path_of_the_host_falls_back_to_what_is_mounted() {
        let files = [("memory.max", "1000\n")];
        assert_eq!(limit(&files, "0::/docker/not-here/at-all\n"), Some(1000));
        assert_eq!(limit(&[], "nonsense\n"), None);
    }

    #[test]
    fn the_machine_has_memory() {
        assert!(usable_memory().unwrap() > 1 << 20);
    }
}
