//! The Python extension module, `feedline._feedline`: convert, release the GIL, call the engine,
//! convert back. What users see is in the Python package, which names and documents it.
//!
//! | file | what crosses there |
//! | --- | --- |
//! | `source.rs`, `in_memory.rs` | datasets, and arrays that Python holds |
//! | `encoded.rs` | opening folders and shards, with progress |
//! | `stores.rs` | objects by URL |
//! | `tables.rs` | opening tables |
//! | `settings.rs` | what is passed by name, in dicts |
//! | `pictures.rs` | image operations, and the dataset they make |
//! | `volumes.rs` | the same of medical volumes |
//! | `text.rs` | lines and files of text, vocabularies, tokenizers, sequences |
//! | `function.rs`, `value.rs`, `record.rs` | samples to a Python function and back |
//! | `iterable.rs` | samples of a Python iterator |
//! | `batch_function.rs` | batches to a Python function and back |
//! | `call.rs` | calls from worker threads; who owns what is called |
//! | `loader.rs`, `describe.rs` | loaders, and their settings |
//! | `epoch.rs` | batches; waiting, signals |
//! | `closing.rs` | nothing: how loaders end, also with the interpreter |
//! | `array.rs`, `dlpack.rs` | memory, as views |
//! | `measures.rs` | what was measured |
//! | `state.rs` | states, and which sample a worker is at |
//! | `errors.rs` | errors, as exceptions |
//! | `transport.rs`, `memory.rs` | messages between processes, and their memory (Linux) |
//! | `allocator.rs`, `trim.rs` | nothing: where large buffers come from and go to |
//! | `model.rs` | questions to the theory |
//! | `forecast.rs` | calibrations and predictions, as JSON |
//! | `contest.rs`, `trace.rs` | the measuring tool, and who made which sample when |

mod allocator;
mod array;
mod batch_function;
mod call;
mod closing;
mod contest;
mod control;
mod describe;
mod dlpack;
mod encoded;
mod epoch;
mod errors;
mod forecast;
mod function;
mod hold;
mod in_memory;
mod iterable;
mod loader;
mod measures;
#[cfg(target_os = "linux")]
mod memory;
mod model;
mod one_argument;
mod output;
mod pictures;
mod prepared;
mod record;
mod settings;
mod source;
mod state;
#[cfg(feature = "stores")]
mod stores;
mod sync;
#[cfg(feature = "tables")]
mod tables;
mod text;
mod trace;
#[cfg(target_os = "linux")]
mod transport;
mod trim;
mod value;
mod volumes;

#[global_allocator]
static ALLOCATOR: allocator::LargeApart = allocator::LargeApart;

use pyo3::prelude::*;

/// The native half of the `feedline` package.
#[pymodule]
pub mod _feedline {
    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::closing::close_all;
    #[pymodule_export]
    use crate::contest::{NativeContest, NativeDigest};
    #[pymodule_export]
    use crate::control::Controller;
    #[pymodule_export]
    use crate::encoded::{expand_braces, open_tar};
    #[pymodule_export]
    use crate::epoch::NativeEpoch;
    #[pymodule_export]
    use crate::forecast::{calibrate, observation, predict, predict_results};
    #[pymodule_export]
    use crate::loader::NativeLoader;
    #[pymodule_export]
    use crate::measures::Measures;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::memory::{SharedBytes, bytes_at, memory_at};
    #[pymodule_export]
    use crate::model::{
        model_amdahl, model_bandwidth, model_batches, model_cheapest_workers,
        model_expected_imbalance, model_fit_usl, model_gustafson, model_imbalance,
        model_largest_batch, model_little, model_loading, model_pinning, model_processes,
        model_queue, model_simulate, model_tandem, model_transfer, model_usl,
        model_waits_longer_than,
    };
    #[pymodule_export]
    use crate::source::Source;
    #[pymodule_export]
    use crate::state::{NativeBatchSampler, current_sample, merge_states};
    #[cfg(feature = "stores")]
    #[pymodule_export]
    use crate::stores::{
        configure_store, has_folders, has_objects, object_names, read_object, store_counts,
        stores_in_use,
    };
    #[cfg(feature = "tables")]
    #[pymodule_export]
    use crate::tables::{open_stream, open_table};
    #[cfg(feature = "tokenizers")]
    #[pymodule_export]
    use crate::text::NativeTokenizer;
    #[pymodule_export]
    use crate::text::{
        NativeVocabulary, NativeWordCounts, cut_sequences, open_text_files, open_text_lines,
        open_tokens, pack_sequences, sequence_lengths, text_unicode_version, word_letters,
    };
    #[pymodule_export]
    use crate::trace::Trace;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::transport::{TransportEnd, TransportHub};
    #[pymodule_export]
    use crate::volumes::{read_volume_file, volume_cases};
    #[pymodule_export]
    use crate::{cli, usable_cores, usable_memory};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

/// Runs the `feedline` command with these arguments and returns its exit code.
#[pyfunction]
fn cli(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> i32 {
    py.detach(|| feedline_cli::run(arguments))
}

/// Cores this process may use: affinity and the cgroup's CPU quota taken into account.
#[pyfunction]
fn usable_cores() -> usize {
    feedline::usable_cores()
}

/// Bytes of memory this process may use: the machine's, or what the cgroup leaves of them; None where nobody tells.
#[pyfunction]
fn usable_memory() -> Option<u64> {
    feedline::usable_memory()
}
