//! `feedline model`: questions to the theory.
//!
//! | file | what it answers |
//! | --- | --- |
//! | `queues.rs` | M/M/1 to M/G/c, Little's law, the cheapest number of workers |
//! | `scaling.rs` | Amdahl, Gustafson, the universal scalability law and its fit |
//! | `lines.rs` | a loader and its loop, lines of stages, imbalance |
//! | `moving.rs` | memory, transfer, shared bandwidth, page-locked memory |
//! | `predicted.rs` | what measured loaders would do at another setting |
//! | `simulated.rs` | a loader on a virtual clock |
//! | `answer.rs`, `page.rs` | an answer as text, JSON, chart, and a page with sliders |

mod answer;
pub(crate) mod arguments;
mod lines;
mod moving;
mod page;
mod predicted;
mod queues;
mod scaling;
mod simulated;

use std::path::{Path, PathBuf};

use anyhow::Context;
use feedline_bench::chart::ChartForm;
use feedline_model::ArgumentError;

use crate::bench::print;
use crate::printer::Printer;
use crate::{Exit, Trouble};

use answer::Answer;
use arguments::{ModelArguments, Question};
use queues::QueueKind;

/// Why there is no answer.
#[derive(Debug)]
enum Refused {
    Argument(ArgumentError),
    File(PathBuf, std::io::Error),
    Words(String),
}

impl From<ArgumentError> for Refused {
    fn from(error: ArgumentError) -> Refused {
        Refused::Argument(error)
    }
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Trouble {
        let error = match refused {
            Refused::Argument(error) => error.into(),
            Refused::Words(words) => anyhow::anyhow!(words),
            Refused::File(path, error) => {
                anyhow::Error::new(error).context(format!("cannot read {}", path.display()))
            }
        };
        Trouble::new(Exit::Usage, error)
    }
}

/// Answers, and writes what was asked for.
pub(crate) fn model(arguments: ModelArguments, printer: &Printer) -> Result<Exit, Trouble> {
    let answer = answer(&arguments.question)?;
    if let Some(path) = &arguments.page {
        write(path, &page::draw(&answer))?;
    }
    if let Some(path) = &arguments.chart {
        let Some(chart) = answer.chart() else {
            let error = anyhow::anyhow!("{} has no chart", answer.name);
            return Err(Trouble::new(Exit::Usage, error).hint("leave --chart out, or pass --page"));
        };
        write(path, &chart.svg(ChartForm::File))?;
    }
    let text = if arguments.json { format!("{}\n", answer.json()) } else { answer.text() };
    print(printer, &text)
}

fn write(path: &Path, text: &str) -> Result<(), Trouble> {
    let written =
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()));
    written.map_err(|error| Trouble::new(Exit::Usage, error))
}

fn answer(question: &Question) -> Result<Answer, Refused> {
    Ok(match question {
        Question::Mm1 { rates } => {
            queues::queue(QueueKind { name: "mm1", servers: 1, spread: 1.0 }, *rates)?
        }
        Question::Mmc { rates, servers } => {
            queues::queue(QueueKind { name: "mmc", servers: *servers, spread: 1.0 }, *rates)?
        }
        Question::Mg1 { rates, spread } => {
            queues::queue(QueueKind { name: "mg1", servers: 1, spread: *spread }, *rates)?
        }
        Question::Mgc { rates, servers, spread } => {
            queues::queue(QueueKind { name: "mgc", servers: *servers, spread: *spread }, *rates)?
        }
        Question::Little { number, rate, time } => queues::little_law(*number, *rate, *time)?,
        Question::Workers { rates, spread, worker_cost, waiting_cost } => {
            queues::workers(*rates, *spread, *worker_cost, *waiting_cost)?
        }
        Question::Loading(asked) => lines::loading(*asked)?,
        Question::Tandem { stage, buffers } => lines::tandem(stage, buffers)?,
        Question::Amdahl { scaling } => scaling::amdahl_law(*scaling)?,
        Question::Gustafson { scaling } => scaling::gustafson_law(*scaling)?,
        Question::Usl { fit: Some(path), workers, .. } => scaling::fitted(path, *workers)?,
        Question::Usl { contention, coherence, workers, .. } => {
            scaling::usl(contention.unwrap_or(0.0), *coherence, *workers)?
        }
        Question::Imbalance { workers: Some(workers), samples, spread, .. } => {
            lines::imbalance_to_expect(*workers, samples.unwrap_or(0), *spread)?
        }
        Question::Imbalance { times, .. } => lines::imbalance_of(times)?,
        Question::Memory { batch_size, sample_bytes, stages, depth, workers, private, limit } => {
            moving::held(&moving::Held {
                batch_size: *batch_size,
                sample_bytes: *sample_bytes,
                stages: *stages,
                depth: *depth,
                workers: *workers,
                private: *private,
                limit: *limit,
            })?
        }
        Question::Transfer { bytes, latency, bandwidth } => {
            moving::transfer(*bytes, *latency, *bandwidth)?
        }
        Question::Bandwidth { total, contention, users, demand } => {
            moving::bandwidth(*total, *contention, *users, *demand)?
        }
        Question::Pinning { batch_bytes, depth, pinned, pageable, step, memory } => {
            moving::page_locked(&moving::Pinned {
                batch_bytes: *batch_bytes,
                depth: *depth,
                bandwidths: (*pinned, *pageable),
                step: *step,
                memory: *memory,
            })?
        }
        Question::Predict(asked) => predicted::predict(asked)?,
        Question::Simulate { file } => simulated::simulate(file)?,
    })
}
