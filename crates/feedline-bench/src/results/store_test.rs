use std::fs;
use std::io::Write as _;

use super::*;
use crate::Machine;
use crate::results::Axis;

pub(crate) fn header() -> ExperimentHeader {
    ExperimentHeader {
        schema: SCHEMA,
        experiment: "workers".into(),
        title: "What more workers bring".into(),
        question: "How fast?".into(),
        axes: vec![Axis::new("contestants", "loader"), Axis::new("workers", "workers")],
        unit: "items".into(),
        rounds: 2,
        quick: true,
        page_cache: "no files are read".into(),
        settings: serde_json::json!({"contestants": ["torch", "feedline"], "workers": [0, 1]}),
        machine: Machine::default(),
        versions: [("torch".to_owned(), "2.0".to_owned())].into(),
        notes: Vec::new(),
        points: 4,
        warm_ups: 1,
        started_unix_s: 1_700_000_000,
    }
}

fn point(contestant: &str, workers: u32) -> Point {
    Point::new().with("contestants", contestant).with("workers", workers)
}

fn run(contestant: &str, workers: u32, round: u32) -> Measurement {
    let point = point(contestant, workers);
    Measurement { point, round, seconds: 0.1 + 0.2, items: 3, ..Measurement::default() }
}

#[test]
fn what_is_written_is_read_back_to_the_last_digit() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = ResultStore::open(folder.path(), header(), false).unwrap();
    store.add(run("torch", 0, 1)).unwrap();
    let left_out = NotRun { point: point("torch", 1), why: "no".into(), needed_bytes: Some(5) };
    store.add_not_run(left_out).unwrap();
    assert_eq!(read(folder.path()).unwrap(), *store.results());
    assert_eq!(read(folder.path()).unwrap().measurements[0].seconds, 0.1 + 0.2);
}

#[test]
fn resuming_keeps_what_is_there_and_cuts_off_a_broken_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = ResultStore::open(folder.path(), header(), false).unwrap();
    store.add(run("torch", 0, 1)).unwrap();
    drop(store);
    let path = folder.path().join(FILE_NAME);
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"kind\":\"measurement\",\"poi").unwrap();
    assert_eq!(read(folder.path()).unwrap().measurements.len(), 1, "reading passes over it");

    let mut later = header();
    later.started_unix_s += 5;
    let mut store = ResultStore::open(folder.path(), later, false).unwrap();
    assert_eq!(store.resumed(), 1);
    assert!(store.has(&point("torch", 0), 1));
    assert!(!store.has(&point("torch", 0), 2), "another round is another run");
    store.add(run("torch", 0, 2)).unwrap();
    let results = read(folder.path()).unwrap();
    assert_eq!(results.measurements.len(), 2);
    assert_eq!(results.header.started_unix_s, 1_700_000_000, "the first start counts");
}

#[test]
fn other_settings_are_refused_unless_told_to_start_over() {
    let folder = tempfile::tempdir().unwrap();
    drop(ResultStore::open(folder.path(), header(), false).unwrap());
    let mut other = header();
    other.settings["workers"] = serde_json::json!([0, 1, 2]);
    let error = ResultStore::open(folder.path(), other.clone(), false).unwrap_err();
    assert!(error.to_string().contains("`workers`: [0,1] there, [0,1,2] now"), "{error}");
    assert!(error.hint().unwrap().contains("--fresh"));
    let mut grid = header();
    grid.experiment = "grid".into();
    let error = ResultStore::open(folder.path(), grid, false).unwrap_err().to_string();
    assert!(error.contains("holds results of `workers`, not of `grid`"), "{error}");
    let store = ResultStore::open(folder.path(), other, true).unwrap();
    assert_eq!(store.results().measurements.len(), 0);
}

#[test]
fn unreadable_files_say_where_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |text: &str| {
        fs::write(folder.path().join(FILE_NAME), text).unwrap();
        let error = read(folder.path()).unwrap_err();
        assert!(error.hint().is_some(), "{error}");
        error.to_string()
    };
    assert!(refusal("").contains("holds no results"));
    assert!(refusal("nonsense\n").contains("line 1: not a result"));
    assert!(
        refusal("{\"kind\":\"not_run\",\"point\":{},\"why\":\"\"}\n").contains("before the header")
    );
    let line = serde_json::to_string(&Line::Experiment(Box::new(header()))).unwrap();
    assert!(refusal(&format!("{line}\n{line}\n")).contains("line 2"));
    let newer = line.replace("\"schema\":1", "\"schema\":99");
    assert!(refusal(&format!("{newer}\n")).contains("schema 99, this version reads 1"));
    assert!(read(&folder.path().join("nowhere")).is_err());
    assert!(matches!(find(&folder.path().join("..")), Ok(_) | Err(_)), "no panic");
}

#[test]
fn a_full_disk_is_said_with_a_hint() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/dev/full", folder.path().join(FILE_NAME)).unwrap();
    let error = ResultStore::open(folder.path(), header(), false).unwrap_err();
    assert!(error.hint().unwrap().contains("free some space"), "{error}");
}

#[test]
fn cells_are_ordered_by_axes_and_names_by_settings() {
    let mut results = Results::new(header());
    for (contestant, workers) in [("feedline", 1), ("torch", 1), ("feedline", 0), ("torch", 0)] {
        results.measurements.extend([1, 2].map(|round| run(contestant, workers, round)));
    }
    results.measurements.push(run("torch", 5, 0));
    let order: Vec<String> = results.cells().iter().map(|cell| cell.point.to_string()).collect();
    assert_eq!(
        order,
        [
            "contestants=torch workers=0",
            "contestants=torch workers=1",
            "contestants=feedline workers=0",
            "contestants=feedline workers=1"
        ]
    );
    assert!(results.is_complete(), "four points of two rounds; a warm-up does not count");
    results.measurements.remove(0);
    assert_eq!(results.runs_missing(), 1);
}
