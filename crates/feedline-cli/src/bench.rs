//! `feedline bench`: the experiments.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use feedline_bench::experiment::{CATALOGUE, ExperimentError, Session, SettingsTable, entry, hold};
use feedline_bench::output::Document;
use feedline_bench::results::{Check, Results};

use crate::arguments::Bench;
use crate::printer::Printer;
use crate::progress::RunBar;
use crate::{Exit, Trouble};

/// Holds an experiment, writes its report and prints its table.
pub(crate) fn bench(arguments: Bench, printer: &Printer) -> Result<Exit, Trouble> {
    let Some(what) = &arguments.what else {
        let list = CATALOGUE.iter().map(|entry| format!("{:<12}{}\n", entry.name, entry.about));
        return print(printer, &list.collect::<String>());
    };
    let Requested { name, quick, settings } = asked(what, &arguments)?;
    let mut experiment =
        entry(&name).and_then(|entry| entry.build(&settings, quick)).map_err(explain)?;
    let out = arguments.out.clone().unwrap_or_else(|| Path::new("results").join(&name));
    let interrupted = Arc::new(AtomicBool::new(false));
    let watch =
        Interrupts::watch(&interrupted).context("cannot watch for Ctrl-C").map_err(usage)?;
    let bar = RunBar::new(printer);
    let mut session = Session {
        python: arguments.python.clone(),
        data: arguments.data.clone(),
        cache: cache(),
        interrupted: Arc::clone(&interrupted),
        watcher: Box::new(|event| bar.follow(event)),
    };
    fs::create_dir_all(&session.cache)
        .with_context(|| format!("cannot create {}", session.cache.display()))
        .map_err(usage)?;
    let held = hold(&name, &mut *experiment, &out, quick, arguments.fresh, &mut session);
    drop(session);
    drop(experiment);
    drop(bar);
    // From here on Ctrl-C means what it always does.
    drop(watch);
    let was_interrupted = interrupted.load(Ordering::Relaxed);
    let store = match held {
        Ok(store) => store,
        Err(_) if was_interrupted => return Ok(Exit::Interrupted),
        Err(error) => return Err(explain(error)),
    };
    if store.resumed() > 0 {
        printer.note(&format!(
            "{} results were in {} already (--fresh forgets them)",
            store.resumed(),
            out.display()
        ));
    }
    let results = store.results();
    let document = Document::new(results).map_err(explain)?;
    let page = document.write(&out).map_err(explain)?;
    let text = if arguments.json {
        format!("{}\n", document.json())
    } else {
        format!("{}\nReport: {}\n", document.terminal(), page.display())
    };
    print(printer, &text)?;
    conclude(results, was_interrupted)
}

fn conclude(results: &Results, was_interrupted: bool) -> Result<Exit, Trouble> {
    if was_interrupted {
        let trouble = Trouble::new(Exit::Interrupted, anyhow::anyhow!("interrupted"));
        return Err(trouble.hint("start the same command again to go on where it stopped"));
    }
    if let Some(problem) = results.checks.iter().find_map(Check::problem) {
        return Err(Trouble::new(Exit::Unsatisfied, anyhow::anyhow!(problem)));
    }
    if results.measurements.is_empty()
        && let Some(first) = results.not_run.first()
    {
        let error = anyhow::anyhow!("{}", first.why).context("no point could be measured");
        return Err(Trouble::new(Exit::SideFailed, error));
    }
    Ok(Exit::Success)
}

/// What was asked for: by name, or by a file.
struct Requested {
    name: String,
    quick: bool,
    settings: SettingsTable,
}

fn asked(what: &str, arguments: &Bench) -> Result<Requested, Trouble> {
    let mut quick = arguments.quick;
    let (name, mut settings) = if what.ends_with(".toml") {
        let text =
            fs::read_to_string(what).with_context(|| format!("cannot read {what}")).map_err(
                |error| usage(error).hint("it should hold `experiment = \"workers\"` and settings"),
            )?;
        let mut table: SettingsTable =
            text.parse().with_context(|| format!("{what} is no TOML file")).map_err(usage)?;
        if let Some(toml::Value::Boolean(value)) = table.remove("quick") {
            quick |= value;
        }
        match table.remove("experiment") {
            Some(toml::Value::String(name)) => (name, table),
            _ => {
                let error = anyhow::anyhow!("{what} names no experiment");
                return Err(
                    usage(error).hint("begin it with a line such as `experiment = \"workers\"`")
                );
            }
        }
    } else {
        (what.to_owned(), SettingsTable::new())
    };
    if let Some(list) = &arguments.workers {
        settings.insert("workers".into(), list_of(list));
    }
    if let Some(list) = &arguments.contestants {
        let names = list.split(',').map(|it| toml::Value::String(it.trim().into()));
        settings.insert("contestants".into(), toml::Value::Array(names.collect()));
    }
    if let Some(rounds) = &arguments.rounds {
        settings.insert("rounds".into(), value_of(rounds));
    }
    for pair in &arguments.set {
        let Some((key, value)) = pair.split_once('=') else {
            let error = anyhow::anyhow!("cannot read --set {pair}");
            return Err(usage(error).hint("write it as --set KEY=VALUE, e.g. --set batch_size=32"));
        };
        settings.insert(key.trim().into(), value_of(value.trim()));
    }
    Ok(Requested { name, quick, settings })
}

fn list_of(text: &str) -> toml::Value {
    toml::Value::Array(text.split(',').map(|it| value_of(it.trim())).collect())
}

/// A TOML value; what is none is a string.
fn value_of(text: &str) -> toml::Value {
    let parsed = format!("value = {text}").parse::<SettingsTable>();
    parsed
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(text.into()))
}

/// Where generated data is kept.
pub(crate) fn cache() -> PathBuf {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    base.or_else(home).unwrap_or_else(std::env::temp_dir).join("feedline").join("data")
}

/// Ctrl-C sets a flag; a second one ends the process.
pub(crate) struct Interrupts(Vec<signal_hook::SigId>);

impl Interrupts {
    pub(crate) fn watch(flag: &Arc<AtomicBool>) -> std::io::Result<Self> {
        use signal_hook::consts::SIGINT;
        use signal_hook::flag;
        // In this order: the first Ctrl-C finds the flag unset and sets it, the second finds it set.
        let ends = flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(flag))?;
        let sets = flag::register(SIGINT, Arc::clone(flag))?;
        Ok(Self(vec![ends, sets]))
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for id in self.0.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// Finds the exit code and the advice that fit an error.
pub(crate) fn explain(error: ExperimentError) -> Trouble {
    let hint = error.hint();
    let exit = match error {
        ExperimentError::Driver { .. } | ExperimentError::Failed { .. } => Exit::SideFailed,
        _ => Exit::Usage,
    };
    let trouble = Trouble::new(exit, error);
    match hint {
        Some(hint) => trouble.hint(hint),
        None => trouble,
    }
}

pub(crate) fn print(printer: &Printer, text: &str) -> Result<Exit, Trouble> {
    printer.data(text).context("cannot write to standard output").map_err(usage)?;
    Ok(Exit::Success)
}

fn usage(error: impl Into<anyhow::Error>) -> Trouble {
    Trouble::new(Exit::Usage, error)
}
