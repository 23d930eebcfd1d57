use std::time::Duration;

use feedline_bench::{
    Contest, Digest, Outcome, Report, Requirement, Settings, VirtualClock, VirtualProbe,
};

/// `a` takes 3 s and waits 0.1 s, `b` takes 1 s and waits 0.2 s, for ten items each.
fn report(requirements: &[&str], outputs: [&[u8]; 2]) -> Report {
    let clock = VirtualClock::new();
    let mut settings = Settings::new("test");
    settings.rounds = 7;
    settings.requirements = requirements.iter().map(|text| text.parse().unwrap()).collect();
    let side = |seconds, wait_s, output: &[u8]| {
        let (clock, digest) = (clock.clone(), Digest::of(output));
        move |_: &mut feedline_bench::Run<'_>| {
            clock.advance(Duration::from_secs(seconds));
            Ok(Outcome::items(10).digest(digest.clone()).figure("wait_s", wait_s))
        }
    };
    Contest::new(settings)
        .side("a", side(3, 0.1, outputs[0]))
        .side("b", side(1, 0.2, outputs[1]))
        .probe(VirtualProbe::new(clock.clone()))
        .run()
        .unwrap()
}

fn verdicts(requirements: &[&str]) -> Vec<String> {
    report(requirements, [b"", b""]).verdicts.iter().map(ToString::to_string).collect()
}

#[test]
fn verdicts_say_what_was_required_and_what_was_reached() {
    let requirements = [
        "b/a>=2.5",
        "b/a >= 3.5",
        "b<=9",
        "seconds:a<=3",
        "seconds_per_item:a - b<=0.1",
        "wait_s:b/a<=2",
        "wait_s:a>=0.2",
    ];
    assert_eq!(
        verdicts(&requirements),
        [
            "required rate of b / a >= 2.5 x: reached 3 x [3, 3]",
            "required rate of b / a >= 3.5 x: NOT reached, 3 x [3, 3]",
            "required rate of b <= 9: NOT reached, 10 [10, 10]",
            "required seconds of a <= 3: reached 3 [3, 3]",
            "required seconds_per_item of a - b <= 0.1: NOT reached, 0.2 [0.2, 0.2]",
            "required wait_s of b / a <= 2 x: reached 2 x [2, 2]",
            "required wait_s of a >= 0.2: NOT reached, 0.1 [0.1, 0.1]",
        ]
    );
}

#[test]
fn what_was_not_measured_is_not_reached() {
    // The virtual probe's script is empty: no CPU time is known.
    assert_eq!(
        verdicts(&["cpu:a/b<=1", "nothing:a<=1"]),
        [
            "required cpu of a / b <= 1 x: NOT shown, no round has `cpu` of a / b",
            "required nothing of a <= 1: NOT shown, no round has `nothing` of a",
        ]
    );
    assert!(!report(&["cpu:a/b<=1"], [b"", b""]).requirements_met());
}

#[test]
fn nothing_is_reached_when_outputs_differ() {
    let report = report(&["b/a>=2.5"], [b"one", b"other"]);
    assert!(!report.requirements_met());
    assert_eq!(
        report.verdicts[0].to_string(),
        "required rate of b / a >= 2.5 x: NOT shown, the outputs differ"
    );
}

#[test]
fn a_requirement_on_an_unknown_side_is_refused() {
    let mut settings = Settings::new("test");
    settings.requirements.push(Requirement::speed("a", "c", 2.0));
    let error = Contest::new(settings).side("a", |_| panic!("must not run")).run().unwrap_err();
    assert_eq!(error.to_string(), "there is no side `c`; the sides are: a");
}

#[test]
fn unreadable_requirements_say_what_to_write() {
    for (text, problem) in [
        ("", "it needs `>=` or `<=`, once"),
        ("a/b>1", "it needs `>=` or `<=`, once"),
        ("a>=1>=2", "the bound is not a number"),
        ("a>=1<=2", "it needs `>=` or `<=`, once"),
        ("a/b>=fast", "the bound is not a number"),
        ("a/b>=NaN", "the bound is not a finite number"),
        ("a/b>=inf", "the bound is not a finite number"),
        ("a/>=1", "a side's name is missing"),
        ("/b>=1", "a side's name is missing"),
        (">=1", "a side's name is missing"),
        (":a>=1", "there is no quantity before `:`"),
    ] {
        let message = text.parse::<Requirement>().unwrap_err().to_string();
        let expected = format!("cannot read the requirement `{text}`: {problem}; write it like");
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn names_with_dashes_are_names() {
    let requirement: Requirement = "drop-in/torch-2>=1".parse().unwrap();
    assert_eq!(requirement.sides().collect::<Vec<_>>(), ["drop-in", "torch-2"]);
}
