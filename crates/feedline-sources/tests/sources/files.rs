//! Folders against a walk of our own, link by link.

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use feedline_core::{Dataset, SampleIndex};
use feedline_sources::files::{FileOptions, Files};
use feedline_sources::{Encoded, Parts, SourceError};
use tempfile::TempDir;

use crate::common::{all, errors};

fn open(root: &Path, options: &FileOptions) -> Result<Files, SourceError> {
    Files::open(root, options, &mut |_| ControlFlow::Continue(()))
}

fn flat() -> FileOptions {
    FileOptions { classes: false, ..FileOptions::default() }
}

/// A tree of small files; each holds its own path.
fn tree(files: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().expect("temporary folder");
    for name in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(&path, name).expect("a file");
    }
    dir
}

/// Paths from the root on, and labels.
fn listed(root: &Path, files: &Files) -> Vec<(PathBuf, Option<i64>)> {
    (0..files.len())
        .map(SampleIndex)
        .map(|i| {
            let path = files.path(i).expect("a path");
            (path.strip_prefix(root).expect("below the root").to_path_buf(), files.label(i))
        })
        .collect()
}

fn expected(list: &[(&str, i64)]) -> Vec<(PathBuf, Option<i64>)> {
    list.iter().map(|(path, label)| (PathBuf::from(path), Some(*label))).collect()
}

#[test]
fn classes_and_files_come_in_the_order_of_their_names() {
    let dir = tree(&[
        "dog/2.jpg",
        "dog/10.PNG",
        "cat/b/3.jpeg",
        "cat/b/c/4.jpg",
        "cat/b-c/1.jpg",
        "cat/b.jpg",
        "cat/notes.txt",
        "stray.jpg",
        "Zebra/1.webp",
    ]);
    let files = open(dir.path(), &FileOptions::default()).unwrap();
    let want = [
        ("Zebra/1.webp", 0),
        ("cat/b.jpg", 1),
        ("cat/b/3.jpeg", 1),
        ("cat/b-c/1.jpg", 1),
        ("cat/b/c/4.jpg", 1),
        ("dog/10.PNG", 2),
        ("dog/2.jpg", 2),
    ];
    assert_eq!(listed(dir.path(), &files), expected(&want));
    assert_eq!(files.classes().unwrap(), ["Zebra", "cat", "dog"]);
    assert_eq!(files.path(SampleIndex(7)), None);
    let batch = all(Parts::by_name(Arc::new(files)).unwrap());
    assert_eq!(batch.get("label").unwrap().as_slice::<i64>().unwrap(), [0, 1, 1, 1, 1, 2, 2]);
    assert!(batch.get("image").unwrap().as_bytes().starts_with(b"Zebra/1.webpcat/b.jpg"));
}

#[test]
fn without_classes_all_files_below_are_samples_without_label() {
    let dir = tree(&["b/2.jpg", "a.jpg", "c/d/e.gif", ".git/x.jpg", "c/._d.jpg"]);
    let files = open(dir.path(), &flat()).unwrap();
    let paths: Vec<PathBuf> =
        listed(dir.path(), &files).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["a.jpg", "b/2.jpg", "c/d/e.gif"].map(PathBuf::from));
    assert_eq!(files.label(SampleIndex(0)), None);
    assert_eq!(files.classes(), None);
    let batch = all(Parts::by_name(Arc::new(files)).unwrap());
    assert!(batch.get("label").is_none());
}

#[test]
fn a_class_without_files_is_an_error_unless_allowed_and_keeps_its_number() {
    let dir = tree(&["a/1.jpg", "b/notes.txt", "c/1.jpg"]);
    let message = open(dir.path(), &FileOptions::default()).unwrap_err().to_string();
    assert!(message.contains("class b") && message.contains(".jpg"), "{message}");
    let allowed = FileOptions { allow_empty: true, ..FileOptions::default() };
    let files = open(dir.path(), &allowed).unwrap();
    assert_eq!(listed(dir.path(), &files), expected(&[("a/1.jpg", 0), ("c/1.jpg", 2)]));
    let none = open(&dir.path().join("b"), &FileOptions::default()).unwrap_err().to_string();
    assert!(none.contains("has no folder in it"), "{none}");
    let none = open(&dir.path().join("b"), &flat()).unwrap_err().to_string();
    assert!(none.contains("no file below"), "{none}");
    let none = open(&dir.path().join("nowhere"), &flat()).unwrap_err().to_string();
    assert!(none.contains("cannot list") && none.contains("nowhere"), "{none}");
}

#[test]
fn links_are_followed_and_loops_end() {
    let dir = tree(&["a/1.jpg", "a/in/2.jpg", "b/3.jpg", "elsewhere/4.jpg"]);
    let at = |name: &str| dir.path().join(name);
    symlink("1.jpg", at("a/link.jpg")).unwrap();
    symlink("../b", at("a/to_b")).unwrap();
    symlink("../a", at("b/to_a")).unwrap();
    symlink("..", at("a/in/up")).unwrap();
    symlink("../..", at("a/in/root")).unwrap();
    symlink("self", at("self")).unwrap();
    symlink("pong", at("ping")).unwrap();
    symlink("ping", at("pong")).unwrap();
    symlink("elsewhere", at("linked_class")).unwrap();
    let files = open(dir.path(), &FileOptions::default()).unwrap();
    let want = [
        ("a/1.jpg", 0),
        ("a/link.jpg", 0),
        ("a/in/2.jpg", 0),
        ("a/to_b/3.jpg", 0),
        ("b/3.jpg", 1),
        ("b/to_a/1.jpg", 1),
        ("b/to_a/link.jpg", 1),
        ("b/to_a/in/2.jpg", 1),
        ("elsewhere/4.jpg", 2),
        ("linked_class/4.jpg", 3),
    ];
    assert_eq!(listed(dir.path(), &files), expected(&want));
}

#[test]
fn pipes_are_no_samples_and_links_that_lead_nowhere_are_errors_of_theirs() {
    let dir = tree(&["a/1.jpg", "a/folder.jpg/2.jpg"]);
    let at = |name: &str| dir.path().join(name);
    let made = std::process::Command::new("mkfifo").arg(at("a/pipe.jpg")).status().unwrap();
    assert!(made.success());
    symlink("pipe.jpg", at("a/to_pipe.jpg")).unwrap();
    symlink("nowhere", at("a/dangling.jpg")).unwrap();
    symlink("gone.jpg", at("a/becomes_pipe.jpg")).unwrap();
    let files = open(dir.path(), &FileOptions::default()).unwrap();
    assert_eq!(files.len(), 4, "{:?}", listed(dir.path(), &files));
    // What was listed as a link to nothing is a pipe by the time it is read: refused, not waited for.
    let made = std::process::Command::new("mkfifo").arg(at("a/gone.jpg")).status().unwrap();
    assert!(made.success());
    let errors = errors(Parts::by_name(Arc::new(files)).unwrap());
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("becomes_pipe.jpg") && errors[0].contains("no regular file"));
    assert!(errors[1].contains("dangling.jpg") && errors[1].contains("No such file"));
}

#[test]
fn names_that_are_no_text_are_read_and_escaped_in_messages() {
    let dir = tempfile::tempdir().unwrap();
    let class = dir.path().join(OsStr::from_bytes(b"class_\xff\xfe"));
    fs::create_dir(&class).unwrap();
    for name in [
        &b"caf\xe9.jpg"[..],
        "日本\n.JPG".as_bytes(),
        "e\u{301}.jpg".as_bytes(),
        "é.jpg".as_bytes(),
    ] {
        fs::write(class.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let files = open(dir.path(), &FileOptions::default()).unwrap();
    let origins: Vec<String> = (0..4).map(|i| files.origin(SampleIndex(i)).unwrap()).collect();
    assert!(origins[0].ends_with("class_\\xff\\xfe/caf\\xe9.jpg"), "{origins:?}");
    assert!(origins[3].ends_with("/日本\\n.JPG"), "{origins:?}");
    let batch = all(Parts::by_name(Arc::new(files)).unwrap());
    let bytes = batch.get("image").unwrap().as_bytes().to_vec();
    assert_eq!(bytes, [&b"caf\xe9.jpg"[..], "e\u{301}.jpgé.jpg日本\n.JPG".as_bytes()].concat());
}

#[test]
fn a_file_beyond_the_limit_is_an_error_of_its_sample_and_not_read() {
    let dir = tree(&["a/1.jpg", "a/2.jpg"]);
    // A terabyte, of which no byte is on the disk.
    fs::File::create(dir.path().join("a/3.jpg")).unwrap().set_len(1 << 40).unwrap();
    let source =
        Parts::by_name(Arc::new(open(dir.path(), &FileOptions::default()).unwrap())).unwrap();
    assert_eq!(source.cost_hint(SampleIndex(2)), Some(1 << 40));
    let errors = errors(source);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("3.jpg") && errors[0].contains("max_bytes"), "{}", errors[0]);
}

/// Files of a folder and what is below, by the plainest recursion there is.
fn brute_force(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            brute_force(&path, out);
        } else {
            out.push(path);
        }
    }
}

/// Makes `classes` folders of `each` empty files and compares what is listed with the recursion.
fn many_files(classes: usize, each: usize) {
    let dir = tempfile::tempdir().unwrap();
    for class in 0..classes {
        let folder = dir.path().join(format!("n{class:08}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..each {
            fs::File::create(folder.join(format!("n{class:08}_{file}.JPEG"))).unwrap();
        }
    }
    let mut most = 0;
    let files = Files::open(dir.path(), &FileOptions::default(), &mut |count| {
        assert!(count >= most, "the count only grows");
        most = count;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(files.len(), (classes * each) as u64);
    let per_file = files.heap_bytes() as f64 / files.len() as f64;
    assert!(per_file <= 40.0, "{per_file} bytes per file");
    let mut walked = Vec::new();
    brute_force(dir.path(), &mut walked);
    walked.sort_unstable();
    for (i, path) in walked.iter().enumerate() {
        assert_eq!(files.path(SampleIndex(i as u64)).as_ref(), Some(path));
        assert_eq!(files.label(SampleIndex(i as u64)), Some((i / each) as i64));
    }
}

#[test]
fn twenty_thousand_files_take_forty_bytes_each_and_are_all_there() {
    many_files(40, 500);
}

#[test]
#[ignore = "makes a million files"]
fn a_million_files_take_forty_bytes_each_and_are_all_there() {
    many_files(1000, 1000);
}

#[test]
fn the_watcher_can_break_a_listing_off() {
    let dir = tree(&["a/1.jpg"]);
    for _ in 0..20 {
        let opened =
            Files::open(dir.path(), &FileOptions::default(), &mut |_| ControlFlow::Break(()));
        // The listing of one file may be over before the watcher is asked.
        assert!(matches!(opened, Ok(_) | Err(SourceError::Interrupted)));
    }
}

#[test]
fn files_that_are_given_come_in_that_order_from_wherever_they_are() {
    let (one, two) = (tree(&["b/2.jpg", "b/1.jpg", "a/3"]), tree(&["b/1.jpg"]));
    let at = |dir: &TempDir, name: &str| dir.path().join(name);
    let paths = [
        at(&one, "b/2.jpg"),
        at(&one, "b/1.jpg"),
        at(&two, "b/1.jpg"),
        at(&one, "a/3"),
        at(&one, "b/2.jpg"),
        PathBuf::from("gone.jpg"),
        PathBuf::from("/"),
    ];
    let files = Files::listed(&paths, 100);
    let found: Vec<PathBuf> =
        (0..files.len()).map(|i| files.path(SampleIndex(i)).expect("a path")).collect();
    assert_eq!(found, paths);
    assert_eq!(files.path(SampleIndex(7)), None);
    for (i, holds) in ["b/2.jpg", "b/1.jpg", "b/1.jpg", "a/3", "b/2.jpg"].iter().enumerate() {
        let mut raw = Vec::new();
        files.load(SampleIndex(i as u64), &mut raw).expect("a file");
        assert_eq!(raw, holds.as_bytes());
    }
    for i in [5, 6] {
        assert!(files.load(SampleIndex(i), &mut Vec::new()).is_err());
    }
    assert_eq!((files.label(SampleIndex(0)), files.classes()), (None, None));
}
