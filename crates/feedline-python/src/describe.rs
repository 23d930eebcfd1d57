//! A loader's settings, as Python names them, for the engine.

use std::sync::Arc;
use std::time::Duration;

use feedline::{Boundary, Delivery, LoaderBuilder, OnError, Order, PolicyKind, plan};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::settings::SettingsDict;
use crate::source::Source;

/// In which order samples come.
fn order(source: &Source, settings: &SettingsDict<'_, '_>) -> PyResult<Order> {
    let shuffle: bool = settings.get_if("shuffle")?.unwrap_or(false);
    let chosen = settings.numbers_if("indices", u64::from_ne_bytes)?;
    let weights = settings.numbers_if("weights", f64::from_ne_bytes)?;
    let (samples, replacement) = (settings.get_if("num_samples")?, settings.get_if("replacement")?);
    let lengths = settings.numbers_if("lengths", u32::from_ne_bytes)?;
    let bucket_batches = settings.get_if("bucket_batches")?;
    if let Some(indices) = chosen {
        return Ok(Order::Subset { indices, shuffle: false });
    }
    if let Some(weights) = weights {
        let samples = samples.unwrap_or(weights.len() as u64);
        return Ok(Order::Weighted { weights, samples, replacement: replacement.unwrap_or(true) });
    }
    if let Some(lengths) = lengths {
        return Ok(Order::Bucketed { lengths, bucket_batches: bucket_batches.unwrap_or(1) });
    }
    Ok(match (source.parts(), source.windows()) {
        (Some(parts), _) => Order::Mixed { parts: parts.to_vec(), samples: None },
        (None, Some((shards, window))) if shuffle => {
            Order::Windowed { shards: plan::ShardSizes::Sizes(shards.to_vec()), window }
        }
        (None, _) if shuffle => Order::Shuffled,
        (None, _) => Order::Sequential,
    })
}

/// Turns the keyword arguments into a builder.
pub(crate) fn describe(
    source: &Source,
    settings: &SettingsDict<'_, '_>,
) -> PyResult<LoaderBuilder> {
    let mut builder = feedline::Loader::builder(source.loaded()).copies_strings(true);
    builder = builder.order(order(source, settings)?);
    if let Some(apart) = settings.get_if("epochs_apart")? {
        builder = builder.epochs_apart(apart);
    }
    if let Some(samples) = settings.get_if("batch_size")? {
        builder = builder.batch_size(samples);
    }
    if let Some(seed) = settings.get_if("seed")? {
        builder = builder.seed(seed);
    }
    let boundaries = [("keep", Boundary::Keep), ("drop", Boundary::Drop), ("pad", Boundary::Pad)];
    if let Some(boundary) = settings.choice_if("boundary", &boundaries)? {
        builder = builder.boundary(boundary);
    }
    if let (Some(rank), Some(world)) = (settings.get_if("rank")?, settings.get_if("world_size")?) {
        builder = builder.rank(rank, world);
    }
    if let Some(threads) = settings.get_if("num_workers")? {
        builder = builder.workers(threads);
    }
    if let Some(most) = settings.get_if::<usize>("auto_num_workers")? {
        builder = builder.auto_workers((most > 0).then_some(most));
    }
    if let Some(most) = settings.get_if::<usize>("auto_prefetch")? {
        builder = builder.auto_prefetch((most > 0).then_some(most));
    }
    if let Some(threads) = settings.get_if("io_workers")? {
        builder = builder.io_workers(threads);
    }
    if let Some(name) = settings.get_if::<String>("policy")? {
        let policy = PolicyKind::from_name(&name).ok_or_else(|| {
            let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
            PyValueError::new_err(format!(
                "policy must be one of {}, got {name:?}",
                names.join(", ")
            ))
        })?;
        builder = builder.policy(policy);
    }
    if let Some(batches) = settings.get_if("prefetch")? {
        builder = builder.prefetch(batches);
    }
    if let Some(bytes) = settings.get_if("memory")? {
        builder = builder.memory(bytes);
    }
    if let Some(window) = settings.get_if("window")? {
        builder = builder.delivery(Delivery::Ready { window });
    }
    let answers =
        [("raise", OnError::Raise), ("skip", OnError::Skip), ("replace", OnError::Replace)];
    if let Some(answer) = settings.choice_if("on_error", &answers)? {
        builder = builder.on_error(answer);
    }
    if let Some(samples) = settings.get_if("max_errors")? {
        builder = builder.max_errors(samples);
    }
    if let Some(seconds) = settings.get_if::<f64>("sample_timeout")? {
        let limit = Duration::try_from_secs_f64(seconds).map_err(|_| {
            PyValueError::new_err(format!(
                "sample_timeout must be a number of seconds above 0, got {seconds}"
            ))
        })?;
        builder = builder.sample_timeout(limit);
    }
    if let Some(count) = settings.get_if("epochs")? {
        builder = builder.epochs(count);
    }
    if let Some(recipe) = settings.get_if::<String>("recipe")? {
        builder = builder.recipe(recipe);
    }
    for json in settings.get_if::<Vec<String>>("replay")?.unwrap_or_default() {
        builder = builder.replay(serde_json::from_str(&json).map_err(|e| {
            PyValueError::new_err(format!("replay takes what order_logs() returns: {e}"))
        })?);
    }
    for alter in source.alters() {
        builder = builder.alter(Arc::clone(alter));
    }
    Ok(builder)
}
