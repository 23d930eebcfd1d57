use super::*;
use crate::Usage;
use crate::output::Document;
use crate::results::{Measurement, NotRun, Point, sample_header};

/// A run of 48 patches.
fn run(contestant: &str, batch: u32, workers: u32, rate: f64, mib: u64) -> Measurement {
    let seconds = 48.0 / rate;
    let figures = [("fetch_s", f64::from(workers) / rate), ("start_s", 0.0), ("end_s", 0.0)];
    Measurement {
        point: Point::new()
            .with("contestants", contestant)
            .with("batch", batch)
            .with("workers", workers),
        round: 1,
        seconds,
        items: 48,
        bytes: Some(48 * 1000),
        figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
        usage: Usage {
            cpu_s: Some(seconds * f64::from(workers.min(2))),
            pss_peak_bytes: Some(mib << 20),
            ..Usage::default()
        },
        ..Measurement::default()
    }
}

fn results(runs: Vec<Measurement>) -> Results {
    let mut header = sample_header();
    header.experiment = "volumes".into();
    header.settings = serde_json::json!({"contestants": ["torch+nibabel", "feedline"]});
    header.axes = ["contestants", "batch", "workers"]
        .map(|name| crate::results::Axis::new(name, name))
        .to_vec();
    header.points = runs.len();
    let mut results = Results::new(header);
    results.measurements = runs;
    results
}

fn example() -> Results {
    let torch = "torch+nibabel";
    results(vec![
        run(torch, 1, 1, 20.0, 300),
        run(torch, 1, 2, 38.0, 400),
        run(torch, 1, 4, 39.0, 600),
        run(torch, 4, 1, 20.0, 320),
        run(torch, 4, 2, 39.0, 430),
        run(torch, 4, 4, 36.0, 700),
        run("feedline", 1, 1, 100.0, 120),
        run("feedline", 1, 2, 196.0, 130),
        run("feedline", 1, 4, 198.0, 140),
        run("feedline", 4, 1, 100.0, 130),
        run("feedline", 4, 2, 200.0, 150),
        run("feedline", 4, 4, 199.0, 190),
    ])
}

#[test]
fn the_cheapest_of_the_fast_settings_is_recommended() {
    let results = example();
    let view = view(&results);
    let sentence = |start: &str| {
        let found = view.verdict.iter().find(|it| it.starts_with(start));
        found.unwrap_or_else(|| panic!("{:?}", view.verdict)).clone()
    };
    // Two workers reach what four do; of their two batch sizes the smaller takes less memory.
    let ours = sentence("Recommended for feedline");
    assert!(ours.contains("feedline: 2 workers, batch 1; 196 patches/s"), "{ours}");
    assert!(ours.contains("130 MiB at the peak"), "{ours}");
    let theirs = sentence("Recommended for torch+nibabel");
    assert!(theirs.contains("2 workers, batch 1; 38.0 patches/s"), "{theirs}");
    assert!(view.tiles.iter().any(|it| it.label == "feedline as recommended: 2 workers, batch 1"));
}

#[test]
fn loaders_are_compared_at_equal_settings_and_workers_by_batch_size() {
    let verdict = view(&example()).verdict;
    let has = |said: &str| verdict.iter().any(|it| it.contains(said));
    // The sixth root of 5 * 196/38 * 198/39 * 5 * 200/39 * 199/36.
    assert!(
        has("feedline delivers 5.15 times the patches per second of torch+nibabel"),
        "{verdict:?}"
    );
    assert!(
        has(
            "torch+nibabel, 1 to 4 workers: 1.95 times the throughput at batch 1, 1.80 times at batch 4 (published: large batches gain less; so it is here"
        ),
        "{verdict:?}"
    );
    assert!(
        has(
            "feedline, 1 to 4 workers: 1.98 times the throughput at batch 1, 1.99 times at batch 4 (published: large batches gain less; here there is no difference"
        ),
        "{verdict:?}"
    );
}

#[test]
fn every_output_has_charts_table_and_predictions() {
    let mut results = example();
    let point =
        Point::new().with("contestants", "feedline").with("batch", 4u32).with("workers", 8u32);
    let why = "more memory than there is".into();
    results.not_run.push(NotRun { point, why, needed_bytes: Some(9 << 30) });
    let document = Document::new(&results).unwrap();
    let page = document.html();
    for title in [
        "Throughput by batch and workers",
        "Throughput, measured and predicted",
        "Preprocessing of a volume",
        "Peak memory against workers",
        "not run: needs 9.00 GiB",
    ] {
        assert!(page.contains(title), "{title}");
    }
    let table = document.markdown();
    assert!(table.contains("| preprocessing |"), "{table}");
    assert!(table.contains("held out"), "{table}");
}

#[test]
fn a_run_that_has_just_begun_is_drawn() {
    let empty = results(Vec::new());
    assert!(view(&empty).verdict.is_empty());
    let one = results(vec![run("feedline", 2, 1, 10.0, 50)]);
    assert!(view(&one).verdict[0].starts_with("Recommended for feedline: 1 worker, batch 2"));
}
