//! Medians and intervals for machines. The keys are stable: fields are added, never renamed.

use serde_json::{Map, Value, json};

use super::Document;
use crate::forecast::{Forecast, Foretold};

pub(super) fn draw(document: &Document<'_>) -> Value {
    let results = document.results;
    let header = &results.header;
    let keys: Vec<&str> =
        ["rate", "seconds", "cpu_s", "busy_cores", "pss_peak_bytes", "bytes_per_s"]
            .into_iter()
            .chain(results.figures())
            .collect();
    let forecast = document.view.forecast.as_ref();
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
            "predicted": forecast.and_then(|it| it.at(cell.point)).map(predicted),
        })
    });
    json!({
        "experiment": header.experiment,
        "title": header.title,
        "quick": header.quick,
        "complete": results.is_complete(),
        "verdict": document.view.verdict,
        "points": points.collect::<Vec<_>>(),
        "model": forecast.map(model),
        "not_run": results.not_run,
        "checks": results.checks,
        "cautions": document.cautions(),
        "settings": header.settings,
        "machine": header.machine,
        "versions": header.versions,
        "started_unix_s": header.started_unix_s,
    })
}

/// What the model says about a point, and by how much it is off.
fn predicted(it: &Foretold) -> Value {
    let mut said = json!(it.prediction);
    said["held_out"] = it.held_out.into();
    said["rate_error"] = it.rate_error().into();
    said["waiting_error"] = it.waiting_error().into();
    said
}

/// How the model was calibrated, and how good it is.
fn model(forecast: &Forecast) -> Value {
    let groups = forecast.groups.iter().map(|group| {
        json!({
            "group": group.common,
            "calibration": group.calibration,
            "accuracy": group.accuracy(),
        })
    });
    json!({
        "groups": groups.collect::<Vec<_>>(),
        "accuracy": forecast.accuracy(),
        "left_out": forecast.left_out,
    })
}
