use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use feedline_core::{Dataset, SampleIndex};
use feedline_sources::files::{FileOptions, Files};
use feedline_sources::npy::{Folder, Packed};
use feedline_sources::tar::Streaming;
use feedline_sources::{Encoded, Parts};

use crate::common::{errors, folder};
use crate::numpy_files::{self, bytes};
use crate::shard_files::{Place, numbered};

/// Names that lead to no file that could be read: a pipe nobody writes to, a device without an end, a
/// folder, a link to itself, and one that leads nowhere.
fn traps(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let at = |name: &str| dir.join(format!("{name}{ending}"));
    let made = std::process::Command::new("mkfifo").arg(at("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()), "a named pipe");
    symlink("/dev/zero", at("device")).unwrap();
    symlink(at("loop"), at("loop")).unwrap();
    symlink("nothing", at("nowhere")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    ["pipe", "device", "loop", "nowhere", "folder"].map(at).to_vec()
}

/// All files of a folder that end so.
fn flat(dir: &Path, ending: &str, max_bytes: u64) -> Files {
    let extensions = vec![ending.to_string()];
    let options = FileOptions { classes: false, extensions, max_bytes, ..FileOptions::default() };
    Files::open(dir, &options, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn what_is_no_file_is_refused_by_every_source_and_nobody_waits_for_it() {
    let place = Place::new();
    for path in traps(place.dir.path(), ".tar") {
        let name = path.display().to_string();
        let message = place.open(&[&path], None).unwrap_err().to_string();
        assert!(message.contains(&name), "{message}");
        let streamed = place.stream(&[&path], None, &Streaming::default());
        assert!(streamed.err().unwrap().to_string().contains(&name));
        let message = Packed::open(&path, "x").unwrap_err().to_string();
        assert!(message.contains(&name), "{message}");
    }
}

#[test]
fn a_file_that_became_something_else_is_an_error_of_its_sample() {
    let good = bytes(numpy_files::F32);
    let dir = folder(&[("0.npy", &good), ("1.npy", &good), ("2.npy", &good)]);
    let npy = Folder::open(dir.path(), "x").unwrap();
    let files = Parts::new(Arc::new(flat(dir.path(), ".npy", 1000)), Vec::new());
    let one = dir.path().join("1.npy");
    fs::remove_file(&one).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&one).status();
    assert!(made.unwrap().success());
    for errors in [errors(npy), errors(files)] {
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("1.npy"), "{}", errors[0]);
    }
}

#[test]
fn a_file_that_shrinks_and_grows_while_it_is_read_is_an_error_or_one_of_its_states() {
    const LENGTHS: [usize; 2] = [0, 4_000_000];
    let dir = folder(&[("0.bin", &[0; LENGTHS[1]])]);
    let path = dir.path().join("0.bin");
    let files = flat(dir.path(), ".bin", u64::MAX);
    let (stop, mut read) = (AtomicBool::new(false), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&path).unwrap();
            for length in LENGTHS.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                file.set_len(*length as u64).unwrap();
            }
        });
        for _ in 0..300 {
            let mut raw = Vec::new();
            match files.load(SampleIndex(0), &mut raw) {
                Ok(()) => read.push(raw.len()),
                Err(error) => read.extend((!error.to_string().contains("file")).then_some(1)),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(read.iter().all(|length| LENGTHS.contains(length)), "{read:?}");
}

#[test]
fn a_file_that_says_it_is_empty_and_is_not_is_an_error() {
    if !Path::new("/proc/version").is_file() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    symlink("/proc/version", dir.path().join("0.jpg")).unwrap();
    let errors = errors(Parts::new(Arc::new(flat(dir.path(), ".jpg", 1000)), Vec::new()));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("0 bytes") && errors[0].contains("0.jpg"), "{}", errors[0]);
    // An empty file is an empty sample.
    let dir = folder(&[("0.jpg", b"")]);
    let mut raw = Vec::new();
    flat(dir.path(), ".jpg", 1000).load(SampleIndex(0), &mut raw).unwrap();
    assert!(raw.is_empty());
}

/// Where the system promises any amount of memory, whether there is any shows only when it is used.
fn promises_are_free() -> bool {
    fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|rule| rule.trim() == "1")
}

#[test]
fn a_tebibyte_where_a_sample_should_be_is_an_error_and_not_an_abort() {
    if promises_are_free() {
        return;
    }
    let place = Place::new();
    let dir = folder(&[("0.bin", b"")]);
    let long = File::options().write(true).open(dir.path().join("0.bin")).unwrap();
    long.set_len(1 << 43).unwrap();
    let files = flat(dir.path(), ".bin", u64::MAX);
    let error = files.load(SampleIndex(0), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");

    // A member that claims as much, in a sparse shard.
    let size: u64 = 1 << 43;
    let mut header = tar::Header::new_gnu();
    header.set_path("a.bin").unwrap();
    header.set_size(size);
    header.set_cksum();
    let path = place.dir.path().join("a.tar");
    let mut file = File::create(&path).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(512 + size + 1024).unwrap();
    let options = feedline_sources::tar::TarOptions { max_bytes: u64::MAX, ..place.options(None) };
    let go_on = &mut |_| ControlFlow::Continue(());
    let shards = feedline_sources::tar::Shards::open(&[path], &options, go_on);
    let error = shards.unwrap().load(SampleIndex(0), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
}

#[test]
fn a_npy_file_of_a_tebibyte_is_an_error_of_its_sample_and_not_an_abort() {
    if promises_are_free() {
        return;
    }
    let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (8796093022208,), }\n";
    let mut start = b"\x93NUMPY\x01\x00".to_vec();
    start.extend((text.len() as u16).to_le_bytes());
    start.extend(text.bytes());
    let dir = folder(&[("0.npy", &start)]);
    let file = File::options().write(true).open(dir.path().join("0.npy")).unwrap();
    file.set_len(start.len() as u64 + (1 << 43)).unwrap();
    let npy = Folder::open(dir.path(), "x").unwrap();
    let error = npy.load(SampleIndex(0), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("memory") && error.contains("0.npy"), "{error}");
}

#[test]
fn a_kept_table_of_a_tebibyte_is_made_anew() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 5));
    place.open(&[&path], None).unwrap();
    let tables = place.dir.path().join("tables");
    let table = fs::read_dir(&tables).unwrap().next().unwrap().unwrap().path();
    for length in [1 << 20, 1 << 40, 1 << 43] {
        File::options().write(true).open(&table).unwrap().set_len(length).unwrap();
        assert_eq!(place.open(&[&path], None).unwrap().len(), 5);
        assert!(table.metadata().unwrap().len() < 10_000, "and written anew");
    }
    fs::remove_file(&table).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&table).status();
    assert!(made.unwrap().success());
    assert_eq!(place.open(&[&path], None).unwrap().len(), 5);
}
