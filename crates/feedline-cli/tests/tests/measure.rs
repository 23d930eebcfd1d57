use std::fs;
use std::path::Path;
use std::process::Stdio;

use super::{feedline, finish};

const RECORDS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../feedline-bench/tests/records/two_sides.jsonl");

/// A quick measurement: one round, no warm-up.
fn once(arguments: &[&str]) -> (i32, String, String) {
    finish(&[&["measure", "--rounds", "1", "--warmup", "0"], arguments].concat())
}

#[test]
fn a_measurement_prints_a_table_and_a_sentence() {
    let (code, out, err) = once(&["--title", "Echoes", "one=echo x", "two=printf 'x\\n'"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(out.starts_with("## Echoes\n"), "{out}");
    assert!(out.contains("\n| one ") && out.contains("\n| two "), "{out}");
    assert!(out.contains("outputs compared: equal in every run"), "{out}");
    assert!(out.contains("two ran ") && out.contains(" as fast as one"), "{out}");
}

#[test]
fn one_command_alone_can_be_measured() {
    let (code, out, _) = once(&["alone=true"]);
    assert_eq!(code, 0);
    assert!(!out.contains("as fast as"), "{out}");
}

#[test]
fn different_outputs_are_exit_code_1_with_a_word() {
    let (code, out, err) = once(&["a=echo x", "b=echo y"]);
    assert_eq!(code, 1);
    assert!(out.contains("**OUTPUTS DIFFER: side b") && !out.contains("as fast as"), "{out}");
    assert!(err.starts_with("error: outputs differ: side `b` has digest"), "{err}");
    assert!(
        err.ends_with("\n\nhint: pass --unchecked if the outputs are not meant to be equal\n"),
        "{err}"
    );

    let (code, out, err) = once(&["--unchecked", "a=echo x", "b=echo y"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(out.contains("outputs NOT compared: --unchecked was given"), "{out}");
}

#[test]
fn requirements_decide_the_exit_code_only_when_strict() {
    let report =
        |seconds| format!(r#"=sh -c 'echo "{{\"digest\": \"d\", \"seconds\": {seconds}}}"'"#);
    let (a, b) = (format!("a{}", report("2.0")), format!("b{}", report("1.0")));
    let (code, out, err) = once(&["--require", "b/a>=1.9", "--strict", &a, &b]);
    assert_eq!((code, &*err), (0, ""));
    assert!(out.contains("required rate of b / a >= 1.9 x: reached 2 x"), "{out}");

    let (code, out, err) = once(&["--require", "b/a>=2.1", &a, &b]);
    assert_eq!((code, &*err), (0, ""));
    assert!(out.contains("required rate of b / a >= 2.1 x: NOT reached, 2 x"), "{out}");

    let (code, _, err) = once(&["--require", "b/a>=2.1", "--strict", &a, &b]);
    assert_eq!((code, &*err), (1, "error: required rate of b / a >= 2.1 x: NOT reached, 2 x\n"));
}

#[test]
fn a_failing_command_is_exit_code_3_and_quoted() {
    let (code, out, err) = once(&["good=true", "bad=sh -c 'echo no such shard >&2; exit 4'"]);
    assert_eq!((code, &*out), (3, ""));
    insta::assert_snapshot!(err, @r"
    error: side `bad` failed in round 1
      caused by: `sh` ended with exit status: 4; it said:
        no such shard
    ");
}

#[test]
fn a_missing_command_is_exit_code_3_with_a_hint() {
    let (code, out, err) = once(&["bad=no-such-program-anywhere"]);
    assert_eq!((code, &*out), (3, ""));
    insta::assert_snapshot!(err, @r#"
    error: side `bad` failed in round 1
      caused by: cannot start `no-such-program-anywhere`
      caused by: No such file or directory (os error 2)

    hint: commands run without a shell; for shell syntax write NAME="sh -c '…'"
    "#);
}

#[test]
fn a_report_that_is_no_number_is_the_sides_failure() {
    let (code, _, err) = once(&[r#"a=echo '{"seconds": -1}'"#]);
    assert_eq!(code, 3);
    assert_eq!(err, "error: side `a` gave -1 for `seconds`; it must be a finite number above 0\n");
}

#[test]
fn what_was_written_can_be_drawn_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (runs, table) = (path("runs.jsonl"), path("table.md"));
    let (code, out, _) = once(&["--out", &runs, "--markdown", &table, "a=echo x", "b=echo x"]);
    assert_eq!(code, 0);
    assert_eq!(fs::read_to_string(&table).unwrap(), out);
    assert_eq!(finish(&["measure", "--from", &runs]), (0, out, String::new()));
}

#[test]
fn a_broken_off_measurement_keeps_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs.jsonl");
    let runs = runs.to_str().unwrap();
    let (code, _, err) = once(&["--out", runs, "good=true", "bad=false"]);
    assert_eq!(code, 3);
    assert!(err.contains(&format!("hint: the runs before it are in {runs}")), "{err}");
    let (code, out, err) = finish(&["measure", "--from", runs]);
    assert_eq!(code, 3);
    assert!(
        out.contains(
            "**BROKEN OFF: side bad failed in round 1: `false` ended with exit status: 1**"
        ),
        "{out}"
    );
    assert!(err.starts_with("error: side `bad` failed in round 1\n"), "{err}");
}

#[test]
fn json_is_one_object_per_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let twice = folder.path().join("twice.jsonl");
    let records = fs::read_to_string(RECORDS).unwrap();
    fs::write(&twice, records.repeat(2)).unwrap();
    let (code, out, _) = finish(&["measure", "--json", "--from", twice.to_str().unwrap()]);
    assert_eq!(code, 0);
    assert_eq!(out.lines().count(), 2);
    for line in out.lines() {
        let report: serde_json::Value = serde_json::from_str(line).unwrap();
        let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            [
                "agreement",
                "baseline",
                "disagreements",
                "failure",
                "machine",
                "rounds",
                "sides",
                "started_unix_s",
                "title",
                "unit",
                "verdicts",
                "versions",
                "warmup",
                "warnings",
            ]
        );
        let ratio = &report["sides"][1]["ratio"];
        assert!((ratio["value"].as_f64().unwrap() - 3.9).abs() < 1e-9, "{ratio}");
        assert_eq!(ratio["interval"]["coverage"], 0.96875);
        assert_eq!(report["verdicts"][0]["met"], true);
        assert_eq!(report["verdicts"][1]["met"], false);
        assert_eq!(report["warnings"][0]["kind"], "others_busy");
    }
}

#[test]
fn requirements_can_be_added_to_what_was_measured() {
    let (code, out, _) =
        finish(&["measure", "--from", RECORDS, "--require", "pss:feedline/torch<=0.5"]);
    assert_eq!(code, 0);
    assert!(out.contains("required pss of feedline / torch <= 0.5 x: reached 0.3444 x"), "{out}");
    let (code, _, err) = finish(&["measure", "--from", RECORDS, "--require", "a/b>=1"]);
    assert_eq!((code, &*err), (2, "error: there is no side `a`; the sides are: torch, feedline\n"));
    let (code, _, err) = finish(&["measure", "--from", RECORDS, "--strict"]);
    assert_eq!(code, 1);
    assert!(
        err.starts_with("error: required first_batch_s of feedline <= 0.01: NOT reached"),
        "{err}"
    );
}

#[test]
fn files_that_cannot_be_used_are_named_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("ran");
    let side = format!("a=touch {}", witness.display());
    for flag in ["--out", "--markdown"] {
        let (code, _, err) = once(&[flag, "/nonexistent/file", &side]);
        assert_eq!(code, 2);
        assert!(err.contains("/nonexistent/file\n  caused by: No such file"), "{err}");
        assert!(!Path::new(&witness).exists(), "{flag}");
    }
}

#[test]
fn broken_records_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.jsonl");
    let error = |text: &str| {
        fs::write(&path, text).unwrap();
        let (code, out, err) = finish(&["measure", "--from", path.to_str().unwrap()]);
        assert_eq!((code, &*out), (2, ""));
        err.replace(folder.path().to_str().unwrap(), "")
    };
    assert_eq!(error(""), "error: /runs.jsonl holds no measurements; it is empty\n");
    let records = fs::read_to_string(RECORDS).unwrap();
    let err = error(&records[..records.len() - 30]);
    assert!(
        err.starts_with("error: /runs.jsonl, line 15: not a record of a measurement: EOF"),
        "{err}"
    );
    assert!(
        err.contains("\n\nhint: the file must be one that `feedline measure --out` wrote"),
        "{err}"
    );
}

#[test]
fn a_reader_who_leaves_early_is_no_error() {
    let mut child = feedline(&["measure", "--from", RECORDS]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let output = feedline(&["measure", "--from", RECORDS]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .starts_with("error: cannot write to standard output")
    );
}
