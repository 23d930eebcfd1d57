//! Fixed, ragged, packed, text; custom collation.

use feedline_core::{
    BatchWriter, Boundary, Cause, Collate, DType, Dataset, Delivery, Error, Field, Loader, OnError,
    Ragged, Sample, SampleView,
};
use proptest::prelude::*;

/// Sample i has `i % 5` tokens, an `(i % 3) x (i % 4)` picture, `i` times the letter x, and so on.
struct Mixed(u64);

fn tokens(i: u64) -> Vec<i32> {
    (0..i % 5).map(|k| (10 * i + k) as i32).collect()
}

fn picture(i: u64) -> (Vec<usize>, Vec<f32>) {
    let shape = [(i % 3) as usize, (i % 4) as usize];
    (shape.to_vec(), (0..shape[0] * shape[1]).map(|k| i as f32 + k as f32 / 100.0).collect())
}

impl Dataset for Mixed {
    fn len(&self) -> u64 {
        self.0
    }
    fn fields(&self) -> Vec<Field> {
        let to_longest = Ragged::PadToLongest { fill: -1.0 };
        vec![
            Field::ragged("tokens", DType::I32, [None], to_longest.clone()),
            Field::fixed("id", DType::U64, []),
            Field::ragged("picture", DType::F32, [None, None], to_longest),
            Field::ragged(
                "padded",
                DType::I32,
                [None],
                Ragged::PadTo { shape: vec![6], fill: 7.0 },
            ),
            Field::ragged("packed", DType::I32, [None], Ragged::Packed),
            Field::text("text"),
            Field::bytes("bytes"),
        ]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let i = sample.index().0;
        sample.put(0, &tokens(i))?;
        sample.put(1, &[i])?;
        let (shape, pixels) = picture(i);
        sample.put_shaped(2, &shape, &pixels)?;
        sample.put(3, &tokens(i))?;
        sample.put(4, &tokens(i))?;
        sample.put_bytes(5, "ä".repeat(i as usize % 3).as_bytes())?;
        sample.put_bytes(6, &vec![i as u8; i as usize % 4])?;
        Ok(())
    }
}

/// Checks one batch against values computed here.
fn check(batch: &feedline_core::Batch) {
    let ids: Vec<u64> = batch.indices().iter().map(|i| i.0).collect();
    assert_eq!(batch.get("id").unwrap().as_slice::<u64>().unwrap(), ids);

    let longest = ids.iter().map(|i| tokens(*i).len()).max().unwrap_or(0);
    let padded = |to: usize, fill: i32| -> Vec<i32> {
        let row = |i: &u64| {
            let mut row = tokens(*i);
            row.resize(to, fill);
            row
        };
        ids.iter().flat_map(row).collect()
    };
    let got = batch.get("tokens").unwrap();
    assert_eq!(got.shape(), [ids.len(), longest]);
    assert_eq!(got.as_slice::<i32>().unwrap(), padded(longest, -1));
    let lengths: Vec<i64> = ids.iter().map(|i| tokens(*i).len() as i64).collect();
    assert_eq!(batch.get("tokens_lengths").unwrap().as_slice::<i64>().unwrap(), lengths);

    let got = batch.get("padded").unwrap();
    assert_eq!(got.shape(), [ids.len(), 6]);
    assert_eq!(got.as_slice::<i32>().unwrap(), padded(6, 7));

    let all: Vec<i32> = ids.iter().flat_map(|i| tokens(*i)).collect();
    assert_eq!(batch.get("packed").unwrap().as_slice::<i32>().unwrap(), all);
    let offsets = batch.get("packed_offsets").unwrap().as_slice::<i64>().unwrap();
    assert_eq!(offsets.len(), ids.len() + 1);
    for (k, i) in ids.iter().enumerate() {
        assert_eq!(all[offsets[k] as usize..offsets[k + 1] as usize], tokens(*i));
    }

    let (height, width) = (
        ids.iter().map(|i| (i % 3) as usize).max().unwrap_or(0),
        ids.iter().map(|i| (i % 4) as usize).max().unwrap_or(0),
    );
    let pictures = batch.get("picture").unwrap();
    assert_eq!(pictures.shape(), [ids.len(), height, width]);
    let pictures = pictures.as_slice::<f32>().unwrap();
    let sizes = batch.get("picture_lengths").unwrap();
    assert_eq!(sizes.shape(), [ids.len(), 2]);
    for (k, i) in ids.iter().enumerate() {
        let (shape, pixels) = picture(*i);
        assert_eq!(
            &sizes.as_slice::<i64>().unwrap()[2 * k..2 * k + 2],
            &[shape[0] as i64, shape[1] as i64]
        );
        for y in 0..height {
            for x in 0..width {
                let inside = y < shape[0] && x < shape[1];
                let expected = if inside { pixels[y * shape[1] + x] } else { -1.0 };
                assert_eq!(
                    pictures[(k * height + y) * width + x],
                    expected,
                    "sample {i} at {y},{x}"
                );
            }
        }
    }

    let text = std::str::from_utf8(batch.get("text").unwrap().as_bytes()).unwrap();
    let expected: String = ids.iter().map(|i| "ä".repeat(*i as usize % 3)).collect();
    assert_eq!(text, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ragged_fields_are_padded_and_packed_as_declared(
        n in 1u64..60, batch in 1u64..12, workers in 0usize..4, ready in any::<bool>(), seed in any::<u64>(),
    ) {
        let mut builder = Loader::builder(Mixed(n)).batch_size(batch).shuffle(seed).workers(workers);
        if ready {
            builder = builder.delivery(Delivery::Ready { window: 2 });
        }
        let loader = builder.build().unwrap();
        for _ in 0..2 {
            loader.epoch().for_each(|batch| check(&batch.unwrap()));
        }
    }
}

struct Gaps;

impl Dataset for Gaps {
    fn len(&self) -> u64 {
        20
    }
    fn fields(&self) -> Vec<Field> {
        Mixed(20).fields()
    }
    fn build(&self, raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        match sample.index().0 % 3 {
            1 => Err("a third is bad".into()),
            _ => Mixed(20).build(raw, sample),
        }
    }
}

#[test]
fn skipped_samples_leave_no_gap_in_any_field() {
    for workers in [0, 2] {
        let loader = Loader::builder(Gaps)
            .batch_size(6)
            .workers(workers)
            .on_error(OnError::Skip)
            .build()
            .unwrap();
        let batches: Vec<_> = loader.epoch().map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(|b| b.len()).sum::<usize>(), 13);
        batches.iter().for_each(check);
    }
}

/// One value each, written in the way the test says.
struct Writes<F>(Field, F);

impl<F> Dataset for Writes<F>
where
    F: Fn(&mut Sample<'_>) -> Result<(), Cause> + Send + Sync + 'static,
{
    fn len(&self) -> u64 {
        2
    }
    fn fields(&self) -> Vec<Field> {
        vec![self.0.clone()]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        (self.1)(sample)
    }
}

fn writing<F>(field: Field, write: F) -> String
where
    F: Fn(&mut Sample<'_>) -> Result<(), Cause> + Send + Sync + 'static,
{
    let loader = Loader::builder(Writes(field, write)).batch_size(2).workers(1).build().unwrap();
    let result = loader.epoch().next().unwrap();
    result.expect_err("must be refused").to_string()
}

#[test]
fn wrong_writes_are_refused_with_what_was_expected() {
    let fixed = || Field::fixed("f", DType::F32, [2, 2]);
    let says = |text: String, words: &[&str]| {
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    says(writing(fixed(), |s| Ok(s.put(0, &[1i64; 4])?)), &["`f`", "float32", "int64"]);
    says(writing(fixed(), |s| Ok(s.put(0, &[1f32; 3])?)), &["`f`", "[2, 2]", "[3]"]);
    says(writing(fixed(), |s| Ok(s.put_shaped(0, &[4], &[1f32; 4])?)), &["[2, 2]", "[4]"]);
    says(writing(fixed(), |s| Ok(s.put(1, &[1f32; 4])?)), &["no field 1"]);
    says(writing(fixed(), |s| Ok(s.put_bytes(0, &[0; 15])?)), &["[15]"]);
    let text = Field::text("t");
    says(writing(text, |s| Ok(s.put_bytes(0, &[b'a', 0xFF])?)), &["UTF-8", "byte 1"]);
    let bytes = Field::bytes("b");
    says(
        writing(bytes, |s| {
            s.view_bytes(0)?;
            Ok(())
        }),
        &["`b`", "put_bytes"],
    );
    let viewed = |field: Field, shape: &'static [usize]| {
        writing(field, move |s| {
            s.view_elements(0, shape)?;
            Ok(())
        })
    };
    says(viewed(Field::text("t"), &[3]), &["`t`", "put_bytes"]);
    says(viewed(fixed(), &[4]), &["[2, 2]", "[4]"]);
    let rows = Field::ragged("r", DType::U8, [None, Some(2)], Ragged::PadToLongest { fill: 0. });
    says(viewed(rows, &[5, 3]), &["[*, 2]", "[5, 3]"]);
    let at_most = Field::ragged("r", DType::U8, [None], Ragged::PadTo { shape: vec![3], fill: 0. });
    says(writing(at_most, |s| Ok(s.put(0, &[0u8; 4])?)), &["at most [3]", "[4]"]);
    let viewed = |s: &mut Sample<'_>| s.view_shaped::<i64>(0, &[2]).map(|_| ()).map_err(Into::into);
    says(writing(Field::ragged("r", DType::I32, [None], Ragged::Packed), viewed), &["int32"]);
    says(
        writing(Field::ragged("r", DType::I64, [None, Some(3)], Ragged::Packed), viewed),
        &["[2]"],
    );
    let text = |s: &mut Sample<'_>| s.view_shaped::<u8>(0, &[2]).map(|_| ()).map_err(Into::into);
    says(writing(Field::text("t"), text), &["`t`", "put_bytes"]);
}

#[test]
fn values_of_varying_length_can_be_written_in_place() {
    let field = Field::ragged("r", DType::I64, [None], Ragged::Packed);
    let write = |s: &mut Sample<'_>| {
        let number = s.index().0 as i64 + 1;
        s.view_shaped::<i64>(0, &[number as usize])?.fill(number);
        Ok(())
    };
    let loader = Loader::builder(Writes(field, write)).batch_size(2).build().unwrap();
    let batch = loader.epoch().next().unwrap().unwrap();
    assert_eq!(batch.get("r").unwrap().as_slice::<i64>().unwrap(), [1, 2, 2]);
}

#[test]
fn padding_that_would_exceed_the_budget_is_an_error_and_not_an_allocation() {
    let field = Field::ragged("r", DType::U8, [None], Ragged::PadToLongest { fill: 0. });
    let write = |s: &mut Sample<'_>| Ok(s.put(0, &vec![0u8; 1 << 20])?);
    let loader = Loader::builder(Writes(field, write))
        .batch_size(2)
        .workers(1)
        .memory(1 << 20)
        .build()
        .unwrap();
    let error = loader.epoch().next().unwrap().unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
}

/// Delivers the sum of each sample's tokens and the longest one's length.
struct Sums;

impl Collate for Sums {
    fn collate(&self, samples: &[SampleView<'_>], out: &mut BatchWriter<'_>) -> Result<(), Cause> {
        let sums = out.array::<i64>("sum", &[samples.len()])?;
        for (sum, sample) in sums.iter_mut().zip(samples) {
            let tokens = sample.get::<i32>(0).ok_or("tokens are int32")?;
            *sum = tokens.iter().map(|t| i64::from(*t)).sum();
        }
        let longest = samples.iter().map(|s| s.shape(0)[0]).max().unwrap_or(0);
        out.array::<u64>("longest", &[])?[0] = longest as u64;
        Ok(())
    }
}

#[test]
fn custom_collation_sees_every_sample_and_decides_the_arrays() {
    for (workers, ready) in [(0, false), (2, false), (2, true)] {
        let mut builder = Loader::builder(Mixed(30))
            .batch_size(7)
            .boundary(Boundary::Keep)
            .workers(workers)
            .collate(Sums);
        if ready {
            builder = builder.delivery(Delivery::Ready { window: 3 });
        }
        let loader = builder.build().unwrap();
        let mut seen = 0;
        for batch in loader.epoch() {
            let batch = batch.unwrap();
            let expected: Vec<i64> = batch
                .indices()
                .iter()
                .map(|i| tokens(i.0).into_iter().map(i64::from).sum())
                .collect();
            assert_eq!(batch.get("sum").unwrap().as_slice::<i64>().unwrap(), expected);
            assert_eq!(batch.arrays().len(), 2);
            seen += batch.len();
        }
        assert_eq!(seen, 30);
    }
}

struct Fails(bool);

impl Collate for Fails {
    fn collate(&self, _: &[SampleView<'_>], _: &mut BatchWriter<'_>) -> Result<(), Cause> {
        if self.0 { panic!("collate panics") } else { Err("collate refuses".into()) }
    }
}

#[test]
fn a_failing_collation_is_the_batchs_error() {
    for panics in [false, true] {
        let loader = Loader::builder(Mixed(4))
            .batch_size(2)
            .workers(1)
            .collate(Fails(panics))
            .build()
            .unwrap();
        let errors: Vec<_> = loader.epoch().map(|b| b.unwrap_err().to_string()).collect();
        assert_eq!(errors.len(), 2);
        assert!(
            errors[1].contains("batch 1 of epoch 0") && errors[1].contains("collate"),
            "{errors:?}"
        );
    }
}

struct Named;

impl Dataset for Named {
    fn len(&self) -> u64 {
        3
    }
    fn fields(&self) -> Vec<Field> {
        vec![Field::fixed("x", DType::U64, []), Field::bytes("text")]
    }
    fn build(&self, _raw: &[u8], sample: &mut Sample<'_>) -> Result<(), Cause> {
        let i = sample.index().0;
        if i == 2 {
            sample.put("y", &[i])?;
        }
        sample.put_bytes("text", b"abc")?;
        Ok(sample.put("x", &[i])?)
    }
}

#[test]
fn fields_are_put_by_name_as_well_as_by_number() {
    let loader = Loader::builder(Named).batch_size(2).workers(1).build().unwrap();
    let mut epoch = loader.epoch();
    let batch = epoch.next().unwrap().unwrap();
    assert_eq!(batch.get("x").unwrap().as_slice::<u64>().unwrap(), [0, 1]);
    assert_eq!(batch.get("text").unwrap().as_bytes(), b"abcabc");
    let error = epoch.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("there is no field `y`; the dataset declares 2"), "{error}");
}
