#![cfg(unix)]

use feedline_bench::{CommandSide, Contest, Digest, Settings, VirtualClock, VirtualProbe};

fn shell(script: &str) -> CommandSide {
    CommandSide::new("sh").args(["-c", script])
}

#[test]
fn output_is_digested() {
    let outcome = shell("printf 'one\\ntwo\\n'").run().unwrap();
    assert_eq!((outcome.items, outcome.digest), (1, Some(Digest::of(b"one\ntwo\n"))));
}

#[test]
fn the_last_line_may_report() {
    let outcome = shell(r#"echo chatter; echo '{"items": 12, "seconds": 0.5, "digest": "abc"}'"#)
        .run()
        .unwrap();
    assert_eq!((outcome.items, outcome.seconds), (12, Some(0.5)));
    assert_eq!(outcome.digest, Some(Digest::from_text("abc")));
}

#[test]
fn arguments_pass_without_a_shell() {
    let outcome = CommandSide::new("printf").args(["%s", "$HOME; `id` *"]).run().unwrap();
    assert_eq!(outcome.digest, Some(Digest::of(b"$HOME; `id` *")));
}

#[test]
fn a_program_that_fills_both_pipes_does_not_hang() {
    let script = "i=0; while [ $i -lt 4000 ]; do echo 0123456789012345678901234567890123456789; \
                  echo 0123456789012345678901234567890123456789 >&2; i=$((i+1)); done";
    assert!(shell(script).run().is_ok());
}

#[test]
fn standard_input_is_empty() {
    assert_eq!(CommandSide::new("cat").run().unwrap().digest, Some(Digest::of(b"")));
}

#[test]
fn a_failing_program_is_quoted() {
    let error = shell("echo data; echo 'no such shard' >&2; exit 7").run().unwrap_err();
    assert_eq!(error.to_string(), "`sh` ended with exit status: 7; it said:\nno such shard");
    let error = shell("kill -KILL $$").run().unwrap_err();
    assert_eq!(error.to_string(), "`sh` ended with signal: 9 (SIGKILL)");
}

#[test]
fn a_missing_program_is_told_as_such() {
    let error = CommandSide::new("no-such-program-anywhere").run().unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "cannot start `no-such-program-anywhere`");
}

#[test]
fn programs_and_closures_can_meet() {
    let mut settings = Settings::new("mixed");
    settings.rounds = 2;
    let report = Contest::new(settings)
        .command("program", shell("printf x"))
        .side("closure", |_| Ok(feedline_bench::Outcome::items(1).digest(Digest::of(b"x"))))
        .probe(VirtualProbe::new(VirtualClock::new()))
        .run()
        .unwrap();
    assert!(report.disagreements.is_empty());
}
