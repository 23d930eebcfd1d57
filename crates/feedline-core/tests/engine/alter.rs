//! Batches changed as a whole, in place.

use feedline_core::{Alter, Assembled, Cause, Error, Loader, OnError};

use crate::common::{Numbers, numbers};

/// Adds a number of the batch's own to every `x`, and replaces `row` by its first column as bytes.
struct Shifts;

impl Alter for Shifts {
    fn alter(&self, batch: &mut Assembled<'_>) -> Result<(), Cause> {
        let shift = batch.stream().unit_f64() as f32;
        let count = batch.len();
        for x in batch.arrays()[1].as_mut_slice::<f32>()? {
            *x += shift;
        }
        batch.replace::<u8>(0, &[count], |rows, out| {
            for (row, out) in rows.as_slice::<i64>()?.chunks_exact(3).zip(out) {
                *out = row[0] as u8;
            }
            Ok(())
        })
    }
}

fn shifted(workers: usize) -> Vec<(Vec<u8>, Vec<f32>)> {
    let loader = Loader::builder(numbers(40))
        .batch_size(7)
        .shuffle(5)
        .workers(workers)
        .alter(Shifts)
        .build()
        .unwrap();
    let mut all = Vec::new();
    for epoch in 0..2 {
        for batch in loader.epoch() {
            let batch = batch.unwrap();
            assert_eq!(batch.epoch(), epoch);
            let rows = batch.get("row").unwrap();
            assert_eq!(rows.shape(), [batch.len()]);
            let rows = rows.as_slice::<u8>().unwrap().to_vec();
            let indices: Vec<u8> = batch.indices().iter().map(|i| i.0 as u8).collect();
            assert_eq!(rows, indices, "the array was replaced by another of another shape");
            all.push((rows, batch.get("x").unwrap().as_slice::<f32>().unwrap().to_vec()));
        }
    }
    all
}

#[test]
fn every_number_of_workers_alters_batches_alike_and_each_batch_by_its_own_stream() {
    let alone = shifted(0);
    assert_eq!(alone, shifted(1));
    assert_eq!(alone, shifted(4));
    let mut shifts: Vec<f32> = alone.iter().map(|(rows, x)| x[0] - f32::from(rows[0])).collect();
    assert!(shifts.iter().all(|shift| (0.0..1.0).contains(shift)));
    shifts.sort_by(f32::total_cmp);
    shifts.dedup();
    assert!(shifts.len() > 8, "of twelve batches: {shifts:?}");
}

#[test]
fn batches_without_samples_are_not_altered() {
    let none = Numbers { n: 6, does: |_| Err("none can be made".into()) };
    let loader = Loader::builder(none)
        .batch_size(3)
        .workers(1)
        .on_error(OnError::Skip)
        .alter(Shifts)
        .build()
        .unwrap();
    let lengths: Vec<usize> = loader.epoch().map(|batch| batch.unwrap().len()).collect();
    assert_eq!(lengths, [0, 0]);
}

struct Fails(bool);

impl Alter for Fails {
    fn alter(&self, _: &mut Assembled<'_>) -> Result<(), Cause> {
        if self.0 { panic!("alter panics") } else { Err("alter refuses".into()) }
    }
}

#[test]
fn a_failing_alteration_is_the_batchs_error() {
    for panics in [false, true] {
        let loader = Loader::builder(numbers(4))
            .batch_size(2)
            .workers(1)
            .alter(Fails(panics))
            .build()
            .unwrap();
        let errors: Vec<_> = loader.epoch().map(|batch| batch.unwrap_err()).collect();
        assert_eq!(errors.len(), 2);
        assert!(matches!(errors[1], Error::Collate { batch: 1, .. }), "{}", errors[1]);
        assert!(errors[1].to_string().contains("alter"), "{}", errors[1]);
    }
}

/// Makes one array of how many samples there are, whatever there was.
struct Counts;

impl Alter for Counts {
    fn alter(&self, batch: &mut Assembled<'_>) -> Result<(), Cause> {
        let count = batch.len() as i64;
        assert_eq!(batch.is_empty(), count == 0);
        let first = batch.key().index.0 as i64;
        batch.remake(|old, out| {
            assert_eq!(old.len(), 2, "those of the dataset");
            out.array::<i64>("count and first", &[2])?.copy_from_slice(&[count, first]);
            let bytes = out.array_bytes("two", feedline_core::DType::F32, &[1, 2])?;
            bytes.fill(0);
            Ok(())
        })
    }

    fn takes_empty(&self) -> bool {
        true
    }
}

#[test]
fn all_arrays_may_become_others_also_those_of_batches_without_samples() {
    let some = Numbers { n: 7, does: |i| if i < 3 { Ok(()) } else { Err("no".into()) } };
    let loader = Loader::builder(some)
        .batch_size(3)
        .workers(2)
        .on_error(OnError::Skip)
        .alter(Counts)
        .build()
        .unwrap();
    let mut counts = Vec::new();
    for batch in loader.epoch() {
        let batch = batch.unwrap();
        counts.push(batch.get("count and first").unwrap().as_slice::<i64>().unwrap().to_vec());
        assert_eq!(batch.get("two").unwrap().shape(), [1, 2]);
        assert_eq!(batch.arrays().len(), 2);
    }
    assert_eq!(counts, [[3, 0], [0, 3], [0, 6]]);
}
