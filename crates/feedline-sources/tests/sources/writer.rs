use feedline_core::{DType, Dataset};
use feedline_sources::SourceError;
use feedline_sources::npy::{Packed, Writer};
use proptest::prelude::*;

use crate::common::{all, folder};

#[test]
fn nothing_has_the_name_before_the_file_is_whole() {
    let dir = folder(&[("a.npy", b"older")]);
    let path = dir.path().join("a.npy");
    let mut writer = Writer::create(&path, DType::U8, [2]).unwrap();
    writer.row(&[1u8, 2]).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"older");
    assert_eq!(writer.finish().unwrap(), 1);
    assert_eq!(all(Packed::open(&path, "x").unwrap()).arrays()[0].as_bytes(), [1, 2]);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let dir = folder(&[]);
    let mut writer = Writer::create(dir.path().join("a.npy"), DType::U8, [1]).unwrap();
    writer.row(&[1u8]).unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn others_may_read_the_file_as_the_umask_says() {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let dir = folder(&[("ordinary", b"")]);
        let path = dir.path().join("a.npy");
        Writer::create(&path, DType::U8, []).unwrap().finish().unwrap();
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(path), mode(dir.path().join("ordinary")));
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let dir = folder(&[]);
    let path = dir.path().join("a.npy");
    let mut writer = Writer::create(&path, DType::F32, [2, 2]).unwrap();
    let message = writer.row(&[1f32; 3]).unwrap_err().to_string();
    assert!(
        message.contains("[2, 2]") && message.contains("16") && message.contains("12"),
        "{message}"
    );
    let message = writer.row(&[1f64; 4]).unwrap_err().to_string();
    assert!(message.contains("float32") && message.contains("float64"), "{message}");
    let refused = Writer::create(&path, DType::Bf16, []);
    assert!(matches!(refused, Err(SourceError::NoSuchDType { .. })));
    let refused = Writer::create(&path, DType::F32, [usize::MAX, 2]);
    assert!(matches!(refused, Err(SourceError::RowTooLarge { .. })));
    let refused = Writer::create(dir.path().join("none/a.npy"), DType::F32, []);
    assert!(matches!(refused, Err(SourceError::Io { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_is_read(rows in 1u16..1200, axes in proptest::collection::vec(0usize..5, 0..4)) {
        let dir = folder(&[]);
        let path = dir.path().join("a.npy");
        let cells: usize = axes.iter().product();
        let mut writer = Writer::create(&path, DType::U16, axes.clone()).unwrap();
        for i in 0..rows {
            writer.row(&vec![i; cells]).unwrap();
        }
        prop_assert_eq!(writer.finish().unwrap(), u64::from(rows));
        let packed = Packed::open(&path, "x").unwrap();
        prop_assert_eq!(packed.len(), u64::from(rows));
        prop_assert_eq!(packed.header().data_offset() % 64, 0);
        let batch = all(packed);
        prop_assert_eq!(&batch.arrays()[0].shape()[1..], &axes[..]);
        let expected: Vec<u16> = (0..rows).flat_map(|i| vec![i; cells]).collect();
        prop_assert_eq!(batch.arrays()[0].as_slice::<u16>().unwrap(), expected);
    }
}
