//! What loaders that were measured would do at another setting.

use feedline_bench::experiment::Unit;
use feedline_bench::forecast::{OtherSetting, predict_elsewhere};

use super::Refused;
use super::answer::Answer;
use super::arguments::PredictArguments;

pub(super) fn predict(asked: &PredictArguments) -> Result<Answer, Refused> {
    let other = OtherSetting {
        workers: asked.workers,
        batch_size: asked.batch_size,
        prefetch: asked.prefetch,
        step_seconds: asked.step,
        ..OtherSetting::default()
    };
    let found = predict_elsewhere(&asked.results, &other);
    let found = found.map_err(|error| Refused::Words(error.to_string()))?;
    let title = format!("Predicted from the measurements in {}", asked.results.display());
    let mut answer = Answer::new("predict", title);
    for it in &found {
        let (name, said) = (key(&it.name), &it.prediction);
        let of = |what: &str| format!("{name}.{what}");
        answer = answer
            .figure(&of("throughput"), "samples per second", Unit::Count, said.samples_per_second)
            .figure(
                &of("waiting_share"),
                "share of time in which the loop waits",
                Unit::Share,
                said.waiting_share,
            )
            .figure(
                &of("first_batch"),
                "until the first batch",
                Unit::Seconds,
                said.first_batch_seconds,
            )
            .figure(
                &of("memory"),
                "most bytes of the process tree",
                Unit::Bytes,
                said.memory_bytes as f64,
            )
            .says(format!(
                "{}, {} workers, batches of {}, steps of {}: {}.",
                it.name,
                it.setting.workers,
                it.setting.batch_size,
                Unit::Seconds.text(it.setting.step_seconds),
                said.bottleneck.words()
            ));
    }
    Ok(answer.told(
        "costs of a sample from the measured points, then a run batch by batch with mean times",
        "The same machine, data and loader; between and a little beyond the measured settings.",
    ))
}

/// A loader's name for programs.
fn key(name: &str) -> String {
    let kept = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' });
    kept.collect::<String>().to_lowercase().split_whitespace().collect::<Vec<_>>().join("_")
}
