use super::*;
use crate::results::{Measurement, Point, Stretch, sample_header};

/// The published table of 0 to 8 workers, as if torch had been measured with it.
fn published() -> Results {
    const SECONDS: [f64; 9] = [36.14, 39.83, 21.79, 15.67, 13.16, 11.60, 10.35, 10.36, 9.64];
    let mut header = sample_header();
    header.rounds = 1;
    header.points = 9;
    header.quick = false;
    let mut results = Results::new(header);
    for (workers, seconds) in (0u32..).zip(SECONDS) {
        results.measurements.push(Measurement {
            point: Point::new()
                .with("contestants", "torch")
                .with("prefetch", 2u32)
                .with("workers", workers),
            round: 1,
            seconds,
            items: 3200,
            waits_s: vec![1.0, 0.5, 1e-9],
            trace: vec![Stretch(0, 0, 0.0, 0.5), Stretch(1, 64, 0.1, 0.9)],
            ..Measurement::default()
        });
    }
    results
}

#[test]
fn the_published_table_gets_the_published_verdict() {
    let results = published();
    let text = Document::new(&results).unwrap().terminal();
    assert!(text.contains("torch is best with 8 workers: 332 items/s, 3.75 times"), "{text}");
    assert!(text.contains("torch dips: one worker is 9 % slower than none"), "{text}");
    assert!(text.contains("Beyond 5 workers") || text.contains("Beyond 6 workers"), "{text}");
    assert!(!text.contains("unfinished"), "{text}");
}

#[test]
fn every_output_is_written_and_the_page_needs_no_network() {
    let results = published();
    let folder = tempfile::tempdir().unwrap();
    let page = Document::new(&results).unwrap().write(folder.path()).unwrap();
    let html = fs::read_to_string(page).unwrap();
    for banned in ["src=\"http", "href=\"http", "url(http", "@import", "<script src"] {
        assert!(!html.contains(banned), "{banned}");
    }
    assert!(html.contains("aria-label=\"Throughput against workers"));
    let csv = fs::read_to_string(folder.path().join("runs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 10);
    assert!(csv.lines().nth(1).unwrap().starts_with("torch,0,1,36.14,"), "{csv}");
    let summary = fs::read(folder.path().join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["points"].as_array().unwrap().len(), 9);
    assert_eq!(summary["complete"], true);
    let png = fs::read(folder.path().join("charts/throughput-against-workers.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG"));
    assert!(fs::read_to_string(folder.path().join("table.md")).unwrap().contains("| workers |"));
}

#[test]
fn hostile_names_stay_text() {
    let mut results = published();
    for run in &mut results.measurements {
        run.point = run.point.clone().with("contestants", "<script>alert('|')</script>");
    }
    let document = Document::new(&results).unwrap();
    assert!(!document.html().contains("<script>alert"));
    assert!(document.markdown().contains("alert('\\|')"));
}

#[test]
fn unfinished_results_say_so() {
    let mut results = published();
    results.measurements.truncate(4);
    let text = Document::new(&results).unwrap().terminal();
    assert!(text.contains("unfinished: 5 runs are missing"), "{text}");
    results.measurements.clear();
    let empty = Document::new(&results).unwrap();
    assert!(empty.html().contains("</html>") && empty.terminal().contains("unfinished"));
}
