use super::*;
use crate::results::Measurement;

/// Results with the given seconds per round, for 100 items each.
fn results(points: &[(u32, &[f64])]) -> Results {
    let mut results = Results::new(crate::results::sample_header());
    for (workers, seconds) in points {
        for (round, seconds) in (1..).zip(*seconds) {
            let point = Point::new().with("contestants", "torch").with("workers", *workers);
            let run = Measurement {
                point,
                round,
                seconds: *seconds,
                items: 100,
                ..Measurement::default()
            };
            results.measurements.push(run);
        }
    }
    results
}

fn verdict(before: &[f64], after: &[f64]) -> bool {
    let comparison = compare(&results(&[(1, before)]), &results(&[(1, after)])).unwrap();
    comparison.changes[0].is_real
}

#[test]
fn a_clear_difference_is_told() {
    assert!(verdict(&[1.0, 1.01, 0.99], &[2.0, 2.02, 1.98]));
    assert!(verdict(&[2.0, 2.02, 1.98], &[1.0, 1.01, 0.99]));
}

#[test]
fn noise_is_not_told() {
    assert!(!verdict(&[1.0, 1.1, 0.9], &[1.05, 0.95, 1.0]), "ranges overlap");
    assert!(
        !verdict(&[1.0, 1.001, 0.999], &[1.012, 1.011, 1.013]),
        "apart, but 1 % is nobody's concern"
    );
    assert!(!verdict(&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]));
    assert!(!verdict(&[1.0], &[1.08]), "single rounds need a larger difference");
    assert!(verdict(&[1.0], &[1.5]));
}

/// One run of two loaders with the given seconds per round, and the load by others.
fn beside(torch: &[f64], feedline: &[f64], others: f64) -> Results {
    let mut results = results(&[(1, torch)]);
    for (round, seconds) in (1..).zip(feedline) {
        let point = Point::new().with("contestants", "feedline").with("workers", 1u32);
        let seconds = *seconds;
        let run = Measurement { point, round, seconds, items: 100, ..Measurement::default() };
        results.measurements.push(run);
    }
    results.measurements.iter_mut().for_each(|it| it.usage.others_cores = Some(others));
    results
}

fn real(before: &Results, after: &Results) -> Vec<String> {
    let changes = compare(before, after).unwrap().changes;
    let real = changes.iter().filter(|it| it.is_real);
    real.map(|it| it.point.text("contestants")).collect()
}

const SLOW: [f64; 7] = [3.0, 3.1, 2.9, 3.05, 2.95, 3.0, 3.02];
const FAST: [f64; 7] = [1.0, 1.02, 0.98, 1.01, 0.99, 1.0, 1.01];

fn times(values: [f64; 7], factor: f64) -> [f64; 7] {
    values.map(|it| it * factor)
}

#[test]
fn a_machine_that_is_slower_for_all_is_not_a_change_of_a_loader() {
    let before = beside(&SLOW, &FAST, 0.1);
    let after = beside(&times(SLOW, 1.5), &times(FAST, 1.5), 0.9);
    assert_eq!(real(&before, &after), [""; 0], "others used the machine");
    let text = compare(&before, &after).unwrap().text("items");
    assert!(text.contains("load by others: 0.1 cores before, 0.9 after"), "{text}");
    let quiet = beside(&times(SLOW, 1.5), &times(FAST, 1.5), 0.1);
    assert_eq!(
        real(&before, &quiet),
        ["torch"],
        "nobody else is to blame; beside it nothing changed"
    );
}

#[test]
fn a_loader_that_changed_beside_the_baseline_is_told_under_any_load() {
    let before = beside(&SLOW, &FAST, 0.1);
    for others in [0.1, 0.9] {
        let after = beside(&SLOW, &times(FAST, 1.5), others);
        assert_eq!(real(&before, &after), ["feedline"]);
        let text = compare(&before, &after).unwrap().text("items");
        assert!(text.contains("3.00 -> 2.00 times torch: 33 % slower beside it"), "{text}");
    }
}

#[test]
fn a_baseline_that_changed_does_not_make_others_change() {
    let before = beside(&SLOW, &FAST, 0.1);
    let after = beside(&times(SLOW, 1.5), &FAST, 0.1);
    assert_eq!(real(&before, &after), ["torch"]);
}

#[test]
fn the_words_name_points_and_circumstances() {
    let before = results(&[(1, &[1.0, 1.0]), (2, &[1.0, 1.0])]);
    let mut after = results(&[(1, &[2.0, 2.0]), (3, &[1.0, 1.0])]);
    after.header.versions.insert("torch".into(), "9.9".into());
    after.header.settings["workers"] = serde_json::json!([7]);
    let comparison = compare(&before, &after).unwrap();
    let text = comparison.text("items");
    assert!(text.contains("1 of 1 points changed beyond noise"), "{text}");
    assert!(
        text.contains("contestants=torch workers=1: 100 -> 50.0 items/s, 50 % slower"),
        "{text}"
    );
    assert!(text.contains("1 points are only in the first run"), "{text}");
    assert!(text.contains("torch: 2.0 before, 9.9 after"), "{text}");
    assert!(text.contains("setting workers: [0,1] before, [7] after"), "{text}");
    let same = compare(&before, &before).unwrap().text("items");
    assert!(same.contains("nothing changed beyond noise at 2 points"), "{same}");
}

#[test]
fn different_experiments_are_not_compared() {
    let (before, mut after) = (results(&[]), results(&[]));
    after.header.experiment = "grid".into();
    assert!(
        compare(&before, &after).unwrap_err().to_string().contains("only runs of one experiment")
    );
}
