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
