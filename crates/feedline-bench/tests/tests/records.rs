use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use feedline_bench::{
    BenchError, Contest, Digest, Outcome, Recorder, Report, Settings, Usage, VirtualClock,
    VirtualProbe, read_records,
};

const SOUND: &str = include_str!("../records/two_sides.jsonl");

fn error(text: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.jsonl");
    fs::write(&path, text).unwrap();
    let message = read_records(&path).unwrap_err().to_string();
    message.replace(path.to_str().unwrap(), "runs.jsonl")
}

fn contest(recorder: Recorder) -> Result<Report, BenchError> {
    let clock = VirtualClock::new();
    let usage = |cpu_s, cores| {
        let mut usage = Usage::default();
        usage.cpu_s = Some(cpu_s);
        usage.others_cores = Some(cores);
        usage
    };
    let mut settings = Settings::new("round trip");
    settings.rounds = 2;
    settings.requirements.push("b/a>=1.1".parse()?);
    Contest::new(settings)
        .side("a", |_| {
            // No decimal fraction of it ends: only an exact round trip of floats keeps it.
            clock.advance(Duration::from_nanos(1_000_000_007));
            Ok(Outcome::items(7).bytes(70).digest(Digest::of(b"x")).figure("third", 1.0 / 3.0))
        })
        .side("b", |_| {
            clock.advance(Duration::from_nanos(700_000_001));
            Ok(Outcome::items(7).digest(Digest::of(b"x")))
        })
        .version("torch", "2.9.1")
        .probe(VirtualProbe::scripted(
            clock.clone(),
            (0..6).map(|i| usage(0.1 * f64::from(i), 0.7)),
        ))
        .record(recorder)
        .run()
}

#[test]
fn a_report_redrawn_from_its_file_is_the_same_report() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let report = contest(Recorder::create(file.path()).unwrap()).unwrap();
    let contests = read_records(file.path()).unwrap();
    assert_eq!(Report::of(&contests[0]), report);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

#[test]
fn a_file_can_hold_several_contests() {
    let file = tempfile::NamedTempFile::new().unwrap();
    contest(Recorder::append(file.path()).unwrap()).unwrap();
    contest(Recorder::append(file.path()).unwrap()).unwrap();
    assert_eq!(read_records(file.path()).unwrap().len(), 2);
    contest(Recorder::create(file.path()).unwrap()).unwrap();
    assert_eq!(read_records(file.path()).unwrap().len(), 1);
}

#[test]
fn every_run_is_in_the_file_before_the_next_one_begins() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines = || fs::read_to_string(file.path()).unwrap().lines().count();
    let mut expected = 0;
    Contest::new(Settings::new("flushed"))
        .side("a", |_| {
            expected += 1;
            assert_eq!(lines(), expected, "the header and the runs so far");
            Ok(Outcome::items(1).digest(Digest::of(b"")))
        })
        .probe(VirtualProbe::new(VirtualClock::new()))
        .record(Recorder::create(file.path()).unwrap())
        .run()
        .unwrap();
}

#[test]
fn a_file_that_cannot_be_created_is_an_error_before_the_first_run() {
    let error = Recorder::create("/nonexistent/folder/runs.jsonl").unwrap_err();
    assert_eq!(error.to_string(), "cannot create /nonexistent/folder/runs.jsonl");
    let error = read_records(Path::new("/nonexistent/runs.jsonl")).unwrap_err();
    assert_eq!(error.to_string(), "cannot read /nonexistent/runs.jsonl");
}

struct FullDisk;

impl Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let error = contest(Recorder::writer("runs.jsonl", FullDisk)).unwrap_err();
    assert_eq!(error.to_string(), "cannot write to runs.jsonl");
}

#[test]
fn an_empty_file_is_told_from_a_broken_one() {
    assert_eq!(error(b""), "runs.jsonl holds no measurements; it is empty");
    assert_eq!(error(b"\n \r\n"), "runs.jsonl holds no measurements; it is empty");
}

#[test]
fn a_broken_line_is_named() {
    let lines: Vec<&str> = SOUND.lines().collect();
    let cut = format!("{}\n{}\n{}", lines[0], lines[1], &lines[2][..40]);
    let message = error(cut.as_bytes());
    assert!(
        message.starts_with("runs.jsonl, line 3: not a record of a measurement: EOF while"),
        "{message}"
    );

    let message = error(format!("{}\n\n\u{0}\n", lines[0]).as_bytes());
    assert!(message.starts_with("runs.jsonl, line 3: "), "{message}");
    let message = error(&[lines[0].as_bytes(), b"\n\xff\xfe\n"].concat());
    assert!(message.starts_with("runs.jsonl, line 2: "), "{message}");
    let message = error(b"{\"kind\": \"poem\"}");
    assert!(
        message.contains("line 1: not a record of a measurement: unknown variant `poem`"),
        "{message}"
    );
}

#[test]
fn records_out_of_place_are_named() {
    let lines: Vec<&str> = SOUND.lines().collect();
    assert_eq!(
        error(lines[1].as_bytes()),
        "runs.jsonl, line 1: not a record of a measurement: it comes before any header"
    );
    let stranger = lines[1].replace("\"torch\"", "\"stranger\"");
    assert_eq!(
        error(format!("{}\n{stranger}\n", lines[0]).as_bytes()),
        "runs.jsonl, line 2: not a record of a measurement: its header has no side `stranger`"
    );
    let later = lines[0].replace("\"schema\":1", "\"schema\":2");
    assert_eq!(
        error(later.as_bytes()),
        "runs.jsonl, line 1: not a record of a measurement: it has schema 2, this version reads 1"
    );
    let no_rounds = lines[0].replace("\"rounds\":6", "\"rounds\":0");
    assert_eq!(
        error(no_rounds.as_bytes()),
        "runs.jsonl, line 1: not a record of a measurement: rounds must be at least 1, got 0"
    );
}
