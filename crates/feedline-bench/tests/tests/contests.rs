use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use feedline_bench::{
    Agreement, BenchError, Contest, ContestEvent, ContestHeader, Digest, Outcome, Probe, Recorder,
    Rounds, Settings, Timing, Usage, VirtualClock, VirtualProbe, Warning, table,
};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn settings(rounds: u32, warmup: u32) -> Settings {
    let mut settings = Settings::new("test");
    settings.rounds = rounds;
    settings.warmup = warmup;
    settings
}

fn same(items: u64) -> Outcome {
    Outcome::items(items).digest(Digest::of(b"same"))
}

#[test]
fn rounds_are_interleaved_and_warm_up_does_not_count() {
    let clock = VirtualClock::new();
    let order = RefCell::new(String::new());
    let side = |name: char, warm: u64, then: u64| {
        let (clock, order) = (clock.clone(), &order);
        move |run: &mut feedline_bench::Run<'_>| {
            order.borrow_mut().push(name);
            clock.advance(ms(if run.turn().warmup { warm } else { then }));
            Ok(same(100))
        }
    };
    let report = Contest::new(settings(4, 1))
        .side("a", side('a', 9000, 200))
        .side("b", side('b', 9000, 100))
        .probe(VirtualProbe::new(clock.clone()))
        .run()
        .unwrap();

    assert_eq!(*order.borrow(), "ababbabaab");
    let [a, b] = &report.sides[..] else { panic!("two sides went in") };
    assert_eq!((a.runs, a.rate.unwrap().median), (4, 500.0));
    assert_eq!((b.runs, b.rate.unwrap().median), (4, 1000.0));
    assert_eq!(b.seconds_per_item.unwrap().median, 0.001);
    assert!(a.ratio.is_none());
    assert_eq!(b.ratio.unwrap().value, 2.0);
}

#[test]
fn ratios_are_taken_within_a_round() {
    // The machine gets slower from round to round; the ratio of the sides does not change.
    let clock = VirtualClock::new();
    let side = |factor: u64| {
        let clock = clock.clone();
        move |run: &mut feedline_bench::Run<'_>| {
            clock.advance(ms(factor * 10 * u64::from(run.turn().round).pow(2)));
            Ok(same(1))
        }
    };
    let report = Contest::new(settings(9, 0))
        .side("slow", side(3))
        .side("fast", side(1))
        .probe(VirtualProbe::new(clock.clone()))
        .run()
        .unwrap();

    let ratio = report.side("fast").unwrap().ratio.unwrap();
    let interval = ratio.interval.unwrap();
    assert!((ratio.value - 3.0).abs() < 1e-9 && interval.high - interval.low < 1e-9, "{ratio:?}");
    assert!(report.warnings.iter().any(|it| matches!(it, Warning::WideSpread { .. })));
}

#[test]
fn a_side_may_leave_out_set_up_and_clearing_up() {
    let clock = VirtualClock::new();
    let whole = Usage::default();
    let mut inner = Usage::default();
    inner.cpu_s = Some(0.25);
    let report = Contest::new(settings(1, 0))
        .side("a", |run| {
            clock.advance(ms(5000));
            run.start()?;
            clock.advance(ms(30));
            run.stop()?;
            clock.advance(ms(7000));
            run.stop()?;
            Ok(same(1))
        })
        .probe(VirtualProbe::scripted(clock.clone(), [inner, whole]))
        .run()
        .unwrap();

    assert_eq!(report.sides[0].seconds.unwrap().median, 0.03);
    assert_eq!(report.sides[0].cpu_s.unwrap().median, 0.25);
}

#[test]
fn a_time_that_the_side_reports_counts_instead() {
    let clock = VirtualClock::new();
    let header = ContestHeader::new(settings(1, 0), vec!["a".into()]).unwrap();
    let mut rounds =
        Rounds::begin(header, VirtualProbe::new(clock.clone()), Recorder::none()).unwrap();
    rounds.next_turn().unwrap();
    clock.advance(ms(500));
    let run = rounds.finish(same(1).seconds(0.125)).unwrap();
    assert_eq!((run.seconds, run.timing), (0.125, Timing::Reported));
}

#[test]
fn steps_out_of_turn_are_refused() {
    let header = ContestHeader::new(settings(1, 0), vec!["a".into(), "b".into()]).unwrap();
    let mut rounds =
        Rounds::begin(header, VirtualProbe::new(VirtualClock::new()), Recorder::none()).unwrap();

    assert!(matches!(rounds.start(), Err(BenchError::NoTurn)));
    assert!(matches!(rounds.stop(), Err(BenchError::NoTurn)));
    assert!(matches!(rounds.finish(same(1)), Err(BenchError::NoTurn)));
    assert!(matches!(rounds.fail("why"), Err(BenchError::NoTurn)));
    assert_eq!(rounds.next_turn().unwrap().unwrap().side, "a");
    let error = rounds.next_turn().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the turn of side `a` (round 1) is still under way; finish it first"
    );
    rounds.finish(same(1)).unwrap();
    assert_eq!(rounds.next_turn().unwrap().unwrap().side, "b");
    rounds.finish(same(1)).unwrap();
    assert_eq!(rounds.next_turn().unwrap(), None);
    assert_eq!(rounds.next_turn().unwrap(), None);
}

#[test]
fn a_course_can_be_handed_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Rounds>();
}

#[test]
fn different_outputs_are_an_error_in_the_report() {
    let report = Contest::new(settings(3, 1))
        .side("a", |_| Ok(same(1)))
        .side("b", |run| {
            let text: &[u8] = if run.turn().round == 2 { b"other" } else { b"same" };
            Ok(Outcome::items(1).digest(Digest::of(text)))
        })
        .probe(VirtualProbe::new(VirtualClock::new()))
        .run()
        .unwrap();

    let [disagreement] = &report.disagreements[..] else { panic!("{:?}", report.disagreements) };
    assert_eq!((&*disagreement.side, disagreement.round, disagreement.runs), ("b", 2, 1));
    let table = table::markdown(&report);
    assert!(table.contains("**OUTPUTS DIFFER: side b has digest xxh3:"), "{table}");
    assert!(!table.contains("as fast as"), "{table}");
}

#[test]
fn a_side_that_contradicts_itself_is_found_even_alone() {
    let mut calls = 0u8;
    let report = Contest::new(settings(3, 0))
        .side("a", |_| {
            calls += 1;
            Ok(Outcome::items(1).digest(Digest::of(&[calls])))
        })
        .probe(VirtualProbe::new(VirtualClock::new()))
        .run()
        .unwrap();
    assert_eq!(report.disagreements[0].runs, 2);
}

#[test]
fn a_missing_digest_is_not_agreement() {
    let contest = |agreement| {
        let mut settings = settings(2, 0);
        settings.agreement = agreement;
        Contest::new(settings)
            .side("a", |_| Ok(same(1)))
            .side("b", |_| Ok(Outcome::items(1)))
            .probe(VirtualProbe::new(VirtualClock::new()))
            .run()
            .unwrap()
    };
    let report = contest(Agreement::Exact);
    assert!(report.disagreements[0].what.starts_with("gave no digest"), "{report:?}");

    let report = contest(Agreement::unchecked("b draws its own random numbers"));
    assert!(report.disagreements.is_empty());
    assert!(
        table::markdown(&report).contains("outputs NOT compared: b draws its own random numbers")
    );
}

#[test]
fn another_number_of_items_is_another_output() {
    let report = Contest::new(settings(1, 0))
        .side("a", |_| Ok(same(64)))
        .side("b", |_| Ok(same(63)))
        .probe(VirtualProbe::new(VirtualClock::new()))
        .run()
        .unwrap();
    assert_eq!(report.disagreements[0].what, "delivered 63 items where `a` delivered 64");
}

#[test]
fn a_failing_side_ends_the_contest_and_is_recorded() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error =
        Contest::new(settings(5, 1))
            .side("a", |_| Ok(same(1)))
            .side("b", |run| {
                if run.turn().warmup { Ok(same(1)) } else { Err("the disk is on fire".into()) }
            })
            .probe(VirtualProbe::new(VirtualClock::new()))
            .record(Recorder::create(file.path()).unwrap())
            .run()
            .unwrap_err();

    assert_eq!(error.to_string(), "side `b` failed in round 1");
    let contests = feedline_bench::read_records(file.path()).unwrap();
    assert_eq!(contests[0].runs.len(), 3);
    let failure = contests[0].failure.as_ref().unwrap();
    assert_eq!((&*failure.side, &*failure.message), ("b", "the disk is on fire"));
    let report = feedline_bench::Report::of(&contests[0]);
    assert!(
        table::markdown(&report)
            .contains("**BROKEN OFF: side b failed in round 1: the disk is on fire**")
    );
}

#[test]
fn figures_that_are_not_numbers_are_refused() {
    for (outcome, message) in [
        (
            same(1).figure("wait_s", f64::NAN),
            "side `a` gave NaN for `wait_s`; it must be a finite number",
        ),
        (same(1).seconds(0.0), "side `a` gave 0 for `seconds`; it must be a finite number above 0"),
    ] {
        let error = Contest::new(settings(1, 0))
            .side("a", |_| Ok(outcome.clone()))
            .probe(VirtualProbe::new(VirtualClock::new()))
            .run()
            .unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn impossible_settings_are_refused_before_the_first_run() {
    let message = |settings: Settings, names: &[&str]| {
        let mut contest = Contest::new(settings);
        for name in names {
            contest = contest.side(*name, |_| panic!("must not run"));
        }
        contest.run().unwrap_err().to_string()
    };
    assert_eq!(message(settings(0, 1), &["a"]), "rounds must be at least 1, got 0");
    assert_eq!(message(settings(1, 1), &[]), "a contest needs at least one side, got none");
    assert!(message(settings(1, 1), &["a", "a"]).starts_with("two sides are called `a`"));
    assert!(message(settings(1, 1), &["a", " "]).starts_with("side 2 has an empty name"));
    let mut strange = settings(1, 1);
    strange.baseline = Some("c".into());
    assert_eq!(message(strange, &["a", "b"]), "there is no side `c`; the sides are: a, b");
}

/// Writes down every call, so that the order of clock and meter can be seen.
struct Spy {
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Probe for Spy {
    fn now(&self) -> Duration {
        self.calls.lock().unwrap().push("now");
        Duration::ZERO
    }

    fn begin(&mut self) {
        self.calls.lock().unwrap().push("begin");
    }

    fn end(&mut self) -> Usage {
        self.calls.lock().unwrap().push("end");
        Usage::default()
    }
}

#[test]
fn reading_the_meter_and_watching_are_outside_the_timed_interval() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    Contest::new(settings(1, 0))
        .side("a", |_| {
            calls.lock().unwrap().push("side");
            Ok(same(1))
        })
        .probe(Spy { calls: calls.clone() })
        .watch(|progress| {
            calls.lock().unwrap().push(match progress {
                ContestEvent::Begins { done: 0, of: 1, .. } => "watch begin",
                ContestEvent::Ended(_) => "watch end",
                _ => "unexpected",
            });
        })
        .run()
        .unwrap();
    let expected = ["watch begin", "begin", "now", "side", "now", "end", "watch end"];
    assert_eq!(*calls.lock().unwrap(), expected);
}
