use feedline_core::simulate::{Assignment as Simulated, Cost, Resource, Simulation, StageCost};

use super::*;
use crate::Usage;
use crate::output::Document;
use crate::results::{Measurement, sample_header};

const BATCHES: u32 = 12;
const BATCH: u32 = 16;

/// A run of the simulator, told as an experiment tells a run: 10 ms off the processor and 1 ms on it for each sample, of
/// 0.2 ms the collating, on two cores; what starting and ending take is added.
fn measured(contestant: &str, workers: u32, step: f64) -> Measurement {
    let mut it = Simulation::new((BATCHES * BATCH).into(), BATCH.into());
    it.resources.push(Resource { capacity: 2.0, each: 1.0, shared_by_ranks: false });
    it.stage("wait", Cost::log_normal(0.01, 0.4).unwrap());
    it.stage_on("cpu", Cost::log_normal(0.001, 0.4).unwrap(), 0);
    let collate = Cost::constant(0.0002 * f64::from(BATCH)).unwrap();
    it.collate =
        Some(StageCost { name: "collate".into(), cost: collate, uses: Some(0), latency: None });
    it.step = Cost::constant(step).unwrap();
    it.workers = workers as usize;
    it.prefetch = 2 * workers as usize;
    let by_batches = contestant == "torch";
    it.assignment = if by_batches { Simulated::Batches } else { Simulated::Samples };
    let found = it.run().unwrap();
    // Processes are started one by one, threads at once.
    let start = if by_batches { 0.01 + 0.02 * f64::from(workers) } else { 0.01 };
    let end = 0.005;
    let samples = found.samples as f64;
    let figures = [
        ("start_s", start),
        ("end_s", end),
        ("step_s", step),
        ("wait_s", found.ranks[0].wait),
        ("fetch_s", (found.stages[0].busy + found.stages[1].busy) / samples),
        ("collate_s", found.stages[2].busy / f64::from(BATCHES)),
    ];
    Measurement {
        point: Point::new()
            .with("contestants", contestant)
            .with("sleep", step)
            .with("workers", workers),
        round: 1,
        seconds: found.duration + start + end,
        items: found.samples,
        bytes: Some(found.samples * 1000),
        figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
        usage: Usage { cpu_s: Some(0.0012 * samples + start + end), ..Usage::default() },
        ..Measurement::default()
    }
}

fn results() -> Results {
    let mut header = sample_header();
    header.settings =
        serde_json::json!({"contestants": ["torch", "feedline"], "batch_size": BATCH});
    header.machine.cores = Some(2);
    let mut results = Results::new(header);
    for contestant in ["torch", "feedline"] {
        for step in [0.0, 0.1] {
            let runs = [1, 2, 3, 4, 6, 8, 12].map(|workers| measured(contestant, workers, step));
            results.measurements.extend(runs);
        }
    }
    results
}

#[test]
fn held_out_points_are_predicted_as_they_were_simulated() {
    let forecast = Forecast::of(&results());
    assert_eq!(forecast.left_out, []);
    let names: Vec<&str> = forecast.groups.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["torch", "feedline"]);
    for group in &forecast.groups {
        let used: Vec<(u32, f64)> = group
            .points
            .iter()
            .filter(|it| !it.held_out)
            .map(|it| (it.observation.workers, it.observation.step_s))
            .collect();
        assert_eq!(used, [(1, 0.0), (2, 0.0), (12, 0.0)]);
        let accuracy = group.accuracy().unwrap();
        assert!(accuracy.points >= 6, "{accuracy:?}");
        assert!(accuracy.rate_mean < 0.05 && accuracy.rate_worst < 0.12, "{accuracy:?}");
        assert!(accuracy.waiting_mean < 0.05, "{accuracy:?}");
    }
}

#[test]
fn points_without_waiting_do_not_count() {
    let forecast = Forecast::of(&results());
    let all = forecast.groups.iter().flat_map(|it| &it.points);
    let counted = all.filter(|it| it.held_out && it.observation.waiting_share() > 0.05).count();
    assert_eq!(forecast.accuracy().unwrap().points, counted);
    assert_eq!(Accuracy::of([]), None);
}

#[test]
fn every_output_has_the_predictions() {
    let results = results();
    let document = Document::new(&results).unwrap();
    let table = document.markdown();
    for said in ["predicted items/s", "error", "predicted waiting", "held out", "calibrates"] {
        assert!(table.contains(said), "{said}: {table}");
    }
    assert!(table.contains("The model of torch, calibrated with 3 points, predicts"), "{table}");
    assert!(document.html().contains("Throughput, measured and predicted"));
    let summary = document.json();
    let first = &summary["points"][0]["predicted"];
    assert!(first["samples_per_second"].as_f64().unwrap() > 0.0, "{first}");
    assert_eq!(first["held_out"], false);
    let accuracy = &summary["model"]["accuracy"];
    assert!(accuracy["rate_mean"].as_f64().unwrap() < 0.08, "{accuracy}");
    assert_eq!(summary["model"]["groups"].as_array().unwrap().len(), 2);
}

#[test]
fn runs_beside_others_do_not_count_where_there_are_better() {
    let mut results = results();
    let undisturbed = Forecast::of(&results);
    for run in results.measurements.clone() {
        let usage = Usage { others_cores: Some(0.9), ..run.usage.clone() };
        let slower = Measurement { round: 2, seconds: 2.0 * run.seconds, usage, ..run };
        results.measurements.push(slower);
    }
    let rates = |forecast: &Forecast| -> Vec<f64> {
        let points = forecast.groups.iter().flat_map(|it| &it.points);
        points.map(|it| it.observation.rate()).collect()
    };
    assert_eq!(rates(&Forecast::of(&results)), rates(&undisturbed));
    results.measurements.retain(|run| run.round == 2);
    assert_eq!(rates(&Forecast::of(&results)).len(), rates(&undisturbed).len());
}

/// Tasks whose steps differ a little from point to point, as real ones do.
fn with_tasks() -> Results {
    let mut results = results();
    for run in &mut results.measurements {
        let step = run.figures["step_s"];
        let workers = run.point.number("workers").unwrap();
        let task = if step > 0.0 { "training" } else { "loading" };
        run.point = run.point.clone().without("sleep").with("task", task);
        let longer = if step > 0.0 { 1e-4 * workers } else { 0.0 };
        run.seconds += longer * f64::from(BATCHES);
        run.figures.insert("step_s".into(), step + longer);
    }
    results
}

#[test]
fn tasks_are_predicted_from_those_without_a_step() {
    let forecast = Forecast::of(&with_tasks());
    let names: Vec<&str> = forecast.groups.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["torch", "feedline"]);
    for group in &forecast.groups {
        let trained = |it: &&Foretold| it.point.text("task") == "training";
        assert_eq!(group.points.iter().filter(trained).count(), 7);
        assert!(group.points.iter().filter(trained).all(|it| it.held_out));
        let accuracy = group.accuracy().unwrap();
        assert!(accuracy.rate_mean < 0.05, "{accuracy:?}");
    }
}

#[test]
fn a_task_has_one_chart_whatever_its_steps_take() {
    let results = with_tasks();
    let mut view = crate::experiment::View::default();
    Forecast::show(&mut view, &results);
    let rates = view.charts.iter().filter(|it| it.title.starts_with("Throughput"));
    let choices: Vec<&str> = rates.filter_map(|it| it.choice.as_deref()).collect();
    let expected = ["torch, loading", "torch, training", "feedline, loading", "feedline, training"];
    assert_eq!(choices, expected);
}

#[test]
fn a_loader_that_nobody_knows_is_left_out_and_said() {
    let mut results = results();
    for run in &mut results.measurements {
        run.point = run.point.clone().with("contestants", "other");
    }
    let forecast = Forecast::of(&results);
    assert!(forecast.groups.is_empty());
    assert_eq!(
        forecast.left_out,
        [("other".to_owned(), "how other gives out work is not known".to_owned())]
    );
}

#[test]
fn impossible_runs_leave_their_group_out() {
    let mut results = results();
    for run in &mut results.measurements {
        run.figures.insert("start_s".into(), -1.0);
    }
    let forecast = Forecast::of(&results);
    let (_, why) = &forecast.left_out[0];
    assert!(why.contains("start_s is -1; pass"), "{why}");
}

#[test]
fn a_folder_of_results_predicts_other_settings() {
    let folder = tempfile::tempdir().unwrap();
    let results = results();
    let mut store =
        crate::results::ResultStore::open(folder.path(), results.header.clone(), false).unwrap();
    for run in &results.measurements {
        store.add(run.clone()).unwrap();
    }
    let other =
        OtherSetting { workers: Some(64), step_seconds: Some(0.08), ..OtherSetting::default() };
    let found = predict_elsewhere(folder.path(), &other).unwrap();
    assert_eq!(found.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["torch", "feedline"]);
    for it in &found {
        assert_eq!((it.setting.workers, it.setting.batch_size), (64, BATCH));
        // A step of 80 ms lets 200 samples pass, and 64 workers make more.
        assert!((it.prediction.samples_per_second / 200.0 - 1.0).abs() < 0.05, "{it:?}");
    }
    let impossible = OtherSetting { step_seconds: Some(-1.0), ..other };
    let problem = predict_elsewhere(folder.path(), &impossible).unwrap_err().to_string();
    assert!(problem.contains("step_seconds is -1"), "{problem}");
}
