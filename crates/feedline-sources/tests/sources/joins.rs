use std::sync::Arc;

use feedline_core::{
    Batch, Cause, DType, Dataset, Field, Group, Loader, Ragged, Sample, SampleIndex,
};
use feedline_sources::{Concat, Select, SourceError, Zip, only};

use crate::common::all;

/// Sample i is `start + i`; groups of rows can be written at once.
struct Numbers {
    start: u64,
    len: u64,
}

impl Dataset for Numbers {
    fn len(&self) -> u64 {
        self.len
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("n", DType::U64, [])]
    }
    fn load(&self, index: SampleIndex, raw: &mut Vec<u8>) -> Result<(), Cause> {
        raw.extend((self.start + index.0).to_le_bytes());
        Ok(())
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let loaded = u64::from_le_bytes(raw.try_into()?);
        assert_eq!(loaded, self.start + sample.index().0, "the bytes of this very sample");
        Ok(sample.put(0, &[loaded])?)
    }
    fn build_group(&self, group: &mut Group<'_>) -> bool {
        let indices = group.indices();
        assert!(indices.iter().all(|index| index.0 < self.len), "indices of this very part");
        let Ok(rows) = group.rows::<u64>(0) else { return false };
        for (row, index) in rows.iter_mut().zip(indices) {
            *row = self.start + index.0;
        }
        true
    }
    fn cost_hint(&self, index: SampleIndex) -> Option<u64> {
        Some(self.start + index.0)
    }
    fn origin(&self, index: SampleIndex) -> Option<String> {
        Some(format!("number {}", self.start + index.0))
    }
}

fn part(start: u64, len: u64) -> Arc<dyn Dataset> {
    Arc::new(Numbers { start, len })
}

fn numbers(batch: &Batch) -> Vec<u64> {
    batch.arrays()[0].as_slice::<u64>().unwrap().to_vec()
}

fn in_batches(dataset: impl Dataset, batch_size: u64) -> Vec<u64> {
    let loader =
        Loader::builder(dataset).batch_size(batch_size).workers(2).epochs(1).build().unwrap();
    loader.epoch().flat_map(|batch| numbers(&batch.unwrap())).collect()
}

#[test]
fn parts_come_one_after_the_other_whatever_the_batches() {
    let parts = || vec![part(0, 5), part(100, 0), part(200, 1), part(300, 7)];
    let expected: Vec<u64> = (0..5).chain(200..201).chain(300..307).collect();
    for batch_size in [1, 3, 5, 100] {
        assert_eq!(in_batches(Concat::new(parts()).unwrap(), batch_size), expected);
    }
    let concat = Concat::new(parts()).unwrap();
    assert_eq!(concat.len(), 13);
    for (i, number) in expected.iter().enumerate() {
        let index = SampleIndex(i as u64);
        assert_eq!(concat.cost_hint(index), Some(*number));
        assert_eq!(concat.origin(index), Some(format!("number {number}")));
    }
    assert_eq!(concat.origin(SampleIndex(13)), None);
    assert!(concat.load(SampleIndex(13), &mut Vec::new()).is_err());
}

#[test]
fn parts_with_other_fields_are_refused_by_number() {
    struct Words;
    impl Dataset for Words {
        fn len(&self) -> u64 {
            3
        }
        fn fields(&self) -> Vec<Field> {
            let rule = Ragged::PadToLongest { fill: 0.0 };
            vec![Field::text("n"), Field::ragged("t", DType::I32, [None, Some(2)], rule)]
        }
        fn build(&self, _raw: &[u8], _sample: &mut Sample<'_>) -> Result<(), Cause> {
            Ok(())
        }
    }
    let refused = Concat::new(vec![part(0, 2), part(0, 2), Arc::new(Words)]).err().unwrap();
    let message = refused.to_string();
    for piece in ["dataset 2", "n: text", "t: int32 [*, 2]", "n: uint64 []"] {
        assert!(message.contains(piece), "{piece}: {message}");
    }
    assert!(matches!(Concat::new(vec![]).err(), Some(SourceError::NothingToJoin { .. })));
    assert!(matches!(Zip::new(vec![]).err(), Some(SourceError::NothingToJoin { .. })));
    let endless = Concat::new(vec![part(0, u64::MAX), part(0, 1)]);
    assert!(matches!(endless.err(), Some(SourceError::TooManySamples)));
}

#[test]
fn a_selection_has_the_listed_samples_in_the_listed_order() {
    let select = Select::new(part(10, 5), vec![4, 0, 0, 2]).unwrap();
    assert_eq!(select.len(), 4);
    assert_eq!(select.origin(SampleIndex(0)).unwrap(), "number 14");
    assert_eq!(select.cost_hint(SampleIndex(3)), Some(12));
    assert_eq!(select.origin(SampleIndex(4)), None);
    for batch_size in [1, 4] {
        let select = Select::new(part(10, 5), vec![4, 0, 0, 2]).unwrap();
        assert_eq!(in_batches(select, batch_size), [14, 10, 10, 12]);
    }
}

#[test]
fn a_selection_of_what_is_not_there_says_which_entry() {
    let refused = Select::new(part(0, 3), vec![0, 2, 3]).err().unwrap().to_string();
    assert!(refused.contains("entry 2") && refused.contains("sample 3"), "{refused}");
    assert!(refused.contains("below 3"), "{refused}");
}

#[test]
fn joins_nest() {
    let halves = Concat::new(vec![part(0, 4), part(100, 4)]).unwrap();
    let picked = Select::new(Arc::new(halves), vec![7, 0, 3, 4]).unwrap();
    let beside: Vec<Arc<dyn Dataset>> = vec![Arc::new(picked), part(50, 4)];
    let batch = all(Zip::by_place(beside).unwrap());
    assert_eq!(batch.get("n").unwrap().as_slice::<u64>().unwrap(), [103, 0, 3, 100]);
    assert_eq!(batch.get("1").unwrap().as_slice::<u64>().unwrap(), [50, 51, 52, 53]);
}

#[test]
fn equally_spaced_samples_come_forwards_and_backwards() {
    let spaced = |first, step, count| {
        Select::spaced(part(0, 10), first, step, count).map(|select| in_batches(select, 4))
    };
    assert_eq!(spaced(1, 3, 3).unwrap(), [1, 4, 7]);
    assert_eq!(spaced(9, -4, 3).unwrap(), [9, 5, 1]);
    assert_eq!(spaced(5, 0, 2).unwrap(), [5, 5]);
    assert!(Select::spaced(part(0, 10), 99, 1, 0).unwrap().is_empty());
    for (first, step, count) in
        [(1, 3, 4), (9, -4, 4), (10, 1, 1), (0, i64::MAX, 3), (0, 1, u64::MAX)]
    {
        let refused = spaced(first, step, count).unwrap_err();
        assert!(matches!(refused, SourceError::NoSuchSample { len: 10, .. }), "{refused}");
    }
}

#[test]
fn repeated_samples_come_again_after_the_last() {
    let twice = Select::repeated(part(5, 3), 2).unwrap();
    assert_eq!(twice.origin(SampleIndex(4)).unwrap(), "number 6");
    assert_eq!(twice.origin(SampleIndex(6)), None);
    assert_eq!(in_batches(twice, 4), [5, 6, 7, 5, 6, 7]);
    assert!(Select::repeated(part(0, 0), 7).unwrap().is_empty());
    let endless = Select::repeated(part(0, 3), u64::MAX);
    assert!(matches!(endless.err(), Some(SourceError::TooManySamples)));
}

#[test]
fn some_fields_are_made_without_the_others() {
    struct Never;
    impl Dataset for Never {
        fn len(&self) -> u64 {
            6
        }
        fn fields(&self) -> Vec<Field> {
            vec![Field::fixed("never", DType::U64, [])]
        }
        fn build(&self, _raw: &[u8], _sample: &mut Sample<'_>) -> Result<(), Cause> {
            Err("it was made".into())
        }
    }
    let zip = Zip::by_place(vec![part(0, 6), Arc::new(Never), part(50, 6)]).unwrap();
    let picked = Select::new(Arc::new(zip), vec![5, 0]).unwrap();
    let joined = Concat::new(vec![Arc::new(picked)]).unwrap();
    let joined: Arc<dyn Dataset> = Arc::new(joined);
    let batch = all(only(&joined, &[2, 0]).unwrap());
    let names: Vec<_> = batch.arrays().iter().map(|array| array.name()).collect();
    assert_eq!(names, ["2", "n"]);
    assert_eq!(batch.get("2").unwrap().as_slice::<u64>().unwrap(), [55, 50]);
    assert_eq!(numbers(&batch), [55, 50]);
    assert!(Arc::ptr_eq(&only(&joined, &[0, 1, 2]).unwrap(), &joined), "all of them are itself");
    assert!(only(&part(0, 6), &[]).is_none());
}

#[test]
fn parts_whose_fields_are_called_differently_are_joined_by_place() {
    let zip = Zip::by_place(vec![part(0, 2), part(5, 2)]).unwrap();
    let other = Zip::by_place(vec![part(9, 1), part(9, 1)]).unwrap();
    let renamed = other.only(&[1, 0]).unwrap();
    assert!(Concat::new(vec![Arc::new(zip), Arc::clone(&renamed)]).is_err());
    let zip = Zip::by_place(vec![part(0, 2), part(5, 2)]).unwrap();
    let joined = all(Concat::by_place(vec![Arc::new(zip), renamed]).unwrap());
    assert_eq!(joined.get("n").unwrap().as_slice::<u64>().unwrap(), [0, 1, 9]);
}
