//! Medians and intervals for machines. The keys are stable: fields are added, never renamed.

use serde_json::{Map, Value, json};

use super::Document;

pub(super) fn draw(document: &Document<'_>) -> Value {
    let results = document.results;
    let header = &results.header;
    let keys: Vec<&str> =
        ["rate", "seconds", "cpu_s", "busy_cores", "pss_peak_bytes", "bytes_per_s"]
            .into_iter()
            .chain(results.figures())
            .collect();
    let points = results.cells().into_iter().map(|cell| {
        let mut quantities = Map::new();
        for key in &keys {
            let Some(summary) = cell.summary(key) else { continue };
            let interval = cell.estimate(key).and_then(|it| it.interval);
            quantities
                .insert((*key).into(), json!({"median": summary.median, "interval": interval}));
        }
        json!({
            "point": cell.point,
            "rounds": cell.runs.len(),
            "quantities": quantities,
            "waits_s": cell.waits_s(),
        })
    });
    json!({
        "experiment": header.experiment,
        "title": header.title,
        "quick": header.quick,
        "complete": results.is_complete(),
        "verdict": document.view.verdict,
        "points": points.collect::<Vec<_>>(),
        "not_run": results.not_run,
        "checks": results.checks,
        "cautions": document.cautions(),
        "settings": header.settings,
        "machine": header.machine,
        "versions": header.versions,
        "started_unix_s": header.started_unix_s,
    })
}
