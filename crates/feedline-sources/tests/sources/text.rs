//! Text from files to padded and packed ids, as a Rust program uses it.

use std::ops::ControlFlow;
use std::sync::Arc;

use feedline_core::{Dataset, Loader, Order, SampleIndex};
use feedline_sources::text::{
    PackedRows, PackedRowsOptions, PadLength, SequenceError, SequenceOptions, SequencePadding,
    Sequences, TextFiles, TextFilesOptions, TextLines, TextOptions, count_words, measure,
};
use feedline_text::packing::PackingMethod;
use feedline_text::{Vocabulary, VocabularyOptions};

fn lines(folder: &std::path::Path, content: &[u8]) -> Arc<TextLines> {
    let path = folder.join("a.txt");
    std::fs::write(&path, content).unwrap();
    let options = TextOptions { cache_dir: Some(folder.join("cache")), ..TextOptions::default() };
    Arc::new(TextLines::open(&[path], &options, &mut |_| ControlFlow::Continue(())).unwrap())
}

fn numbered(lines: &Arc<TextLines>) -> SequenceOptions {
    let counts = count_words(&**lines, 0, &mut |_| ControlFlow::Continue(())).unwrap();
    let vocabulary = Vocabulary::build(counts, &VocabularyOptions::default()).unwrap();
    SequenceOptions::of(Arc::new(vocabulary))
}

#[test]
fn the_same_ids_come_whatever_the_workers() {
    let dir = tempfile::tempdir().unwrap();
    let content: String = (0..500).map(|i| format!("w{} w{} x\n", i % 7, i % 11)).collect();
    let lines = lines(dir.path(), content.as_bytes());
    let padding = SequencePadding { to: PadLength::Exactly(4), left: true, ..Default::default() };
    let options =
        SequenceOptions { max_length: Some(2), padding: Some(padding), ..numbered(&lines) };
    let run = |workers| -> Vec<i64> {
        let ids = Sequences::new(lines.clone(), 0, options.clone()).unwrap();
        let loader = Loader::builder(ids).batch_size(8).order(Order::Shuffled).seed(4);
        let loader = loader.workers(workers).build().unwrap();
        let ids = |batch: feedline_core::Batch| {
            batch.get("text").unwrap().as_slice::<i64>().unwrap().to_vec()
        };
        loader.epoch().flat_map(|batch| ids(batch.unwrap())).collect()
    };
    let alone = run(0);
    assert_eq!(alone.len(), 2000);
    assert!(alone.chunks(4).all(|row| row[..2] == [0, 0] && row[2] > 1 && row[3] > 1));
    assert_eq!(alone, run(1));
    assert_eq!(alone, run(3));
}

#[test]
fn lengths_are_known_before_anything_is_read_and_after_reading_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let lines = lines(dir.path(), "one\r\n\nüber\nlast".as_bytes());
    let lengths: Vec<_> = (0..4).map(|i| lines.known_length(SampleIndex(i), 0)).collect();
    assert_eq!(lengths, [Some(3), Some(0), Some(5), Some(4)]);
    let ids = Sequences::new(lines.clone(), 0, numbered(&lines)).unwrap();
    assert_eq!(measure(&ids, 0, &mut |_| ControlFlow::Continue(())).unwrap(), [1, 0, 1, 1]);
    assert_eq!(lines.origin(SampleIndex(2)).unwrap(), format!("{}/a.txt:3", dir.path().display()));
}

#[test]
fn packed_rows_hold_all_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let lines = lines(dir.path(), b"a b c\nd\na b\n");
    let ids = Arc::new(Sequences::new(lines.clone(), 0, numbered(&lines)).unwrap());
    let lengths = measure(&*ids, 0, &mut |_| ControlFlow::Continue(())).unwrap();
    let options = PackedRowsOptions {
        length: 4,
        method: PackingMethod::BestFit,
        fill: 0.0,
        end: None,
        reshuffle: false,
    };
    let rows = PackedRows::new(ids, 0, lengths, options).unwrap();
    assert_eq!((rows.packing().rows(), rows.packing().padding()), (2, 2));
    let loader = Loader::builder(rows).batch_size(2).build().unwrap();
    let batch = loader.epoch().next().unwrap().unwrap();
    let of = |name| batch.get(name).unwrap().as_slice::<i64>().unwrap().to_vec();
    assert_eq!(of("text"), [2, 3, 4, 5, 2, 3, 0, 0]);
    assert_eq!(of("segment_ids"), [1, 1, 1, 2, 1, 1, 0, 0]);
    assert_eq!(of("position_ids"), [0, 1, 2, 0, 0, 1, 0, 0]);
    // Rows of later epochs, which are made ahead, count too.
    assert_eq!(loader.stats().padded.share(), 0.25);
}

#[test]
fn fields_that_hold_no_text_or_no_sequences_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("pos")).unwrap();
    std::fs::write(dir.path().join("pos/1.txt"), "x").unwrap();
    let watch = &mut |_: u64| ControlFlow::Continue(());
    let files = TextFiles::open(dir.path(), &TextFilesOptions::default(), watch).unwrap();
    let files: Arc<dyn Dataset> = Arc::new(files);
    let vocabulary = Arc::new(Vocabulary::of(["x"], None, None).unwrap());
    let of = |field, options| Sequences::new(Arc::clone(&files), field, options).err();
    assert!(matches!(
        of(1, SequenceOptions::of(vocabulary.clone())),
        Some(SequenceError::NotText { .. })
    ));
    assert!(matches!(of(0, SequenceOptions::default()), Some(SequenceError::NotASequence { .. })));
    assert!(matches!(
        of(2, SequenceOptions::of(vocabulary)),
        Some(SequenceError::NoField { field: 2, count: 2 })
    ));
}
