//! The rooms of ARCHITECTURE.md use whom it says they use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Rooms = BTreeMap<String, BTreeSet<String>>;

/// What the tree in ARCHITECTURE.md says: `src/open/   begins batches; uses plan, state, flow`.
fn drawn(page: &str) -> Rooms {
    let lines = page.lines().filter_map(|line| line.trim().strip_prefix("src/"));
    let rooms = lines.filter_map(|line| {
        let (room, about) = line.split_once("/ ")?;
        let (_, used) = about.split_once("; uses ")?;
        let words = used.split([',', ' ']).filter(|word| !word.is_empty());
        Some((room.to_owned(), words.map(str::to_owned).collect()))
    });
    rooms.collect()
}

/// Plain data of other rooms that the page allows: the backquoted words of its sentence.
fn plain_data(page: &str) -> BTreeSet<String> {
    let (_, after) = page.split_once("travels against the arrow:").expect("the sentence is there");
    let (sentence, _) = after.split_once('(').expect("which says who checks it");
    sentence.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a room is a folder");
    let mut all = Vec::new();
    for path in entries.map(|entry| entry.expect("readable").path()) {
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    all
}

/// What a file names of the crate, outside of its tests and comments: `(room, item)`.
fn named(source: &str) -> Vec<(String, String)> {
    let code = source.split("#[cfg(all(test").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line.trim(), " "]).collect();
    let mut all = Vec::new();
    for path in code.split("crate::").skip(1) {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let room: String = path.chars().take_while(|c| is_part(*c)).collect();
        let items = path[room.len()..].strip_prefix("::").unwrap_or_default();
        let items = match items.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => items.split(|c| !is_part(c)).next().unwrap_or_default(),
        };
        for item in items.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            all.push((room.clone(), item.to_owned()));
        }
    }
    all
}

#[test]
fn rooms_use_whom_the_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../ARCHITECTURE.md")).expect("the page is there");
    let (rooms, plain_data) = (drawn(&page), plain_data(&page));
    assert!(rooms.len() >= 9, "the tree names {rooms:?}");
    for (room, used) in &rooms {
        // `nothing`, `all` and `plain data of others` are words of the page.
        if used.contains("all") || used.contains("others") {
            continue;
        }
        for file in sources(&root.join("src").join(room)) {
            let source = fs::read_to_string(&file).expect("readable");
            for (other, item) in named(&source) {
                // Numbers and positions of plan and state are used everywhere.
                let is_common = ["plan", "state"].contains(&other.as_str()) && room != "plan";
                let is_said = other == *room || used.contains(&other);
                let is_room = rooms.contains_key(&other) || other == "engine" || other == "crew";
                let is_fine = !is_room || is_said || is_common || plain_data.contains(&item);
                assert!(
                    is_fine,
                    "{} uses `{item}` of {other}: say so there, or move it",
                    file.display()
                );
            }
        }
    }
}
