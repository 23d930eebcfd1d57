use feedline_core::plan::PlanError;
use feedline_core::{BuildError, DType, Dataset, Loader, OnError, SampleIndex};
use feedline_sources::SourceError;
use feedline_sources::npy::{NpyHeader, Packed, Writer};

use crate::common::{all, errors, file, folder};
use crate::numpy_files::{self as files, bytes};

fn open(hex: &str) -> Packed {
    let (_dir, path) = file(&bytes(hex));
    Packed::open(path, "x").expect("NumPy wrote it")
}

#[test]
fn rows_of_every_layout_come_out_row_major_and_native() {
    let f32s = all(open(files::F32));
    assert_eq!(f32s.arrays()[0].shape(), [3, 2]);
    assert_eq!(f32s.get("x").unwrap().as_slice::<f32>().unwrap(), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
    let fortran = all(open(files::FORTRAN_I16));
    let counted: Vec<i16> = (0..12).collect();
    assert_eq!(fortran.arrays()[0].as_slice::<i16>().unwrap(), counted);
    let big = all(open(files::BIG_ENDIAN_F64));
    assert_eq!(big.arrays()[0].as_slice::<f64>().unwrap(), [1.5, -2.0]);
    let complex = all(open(files::BIG_ENDIAN_C64));
    assert_eq!(complex.arrays()[0].as_slice::<[f32; 2]>().unwrap(), [[1.0, 2.0]]);
    let both = all(open(files::FORTRAN_BIG_ENDIAN_U32));
    assert_eq!(both.arrays()[0].as_slice::<u32>().unwrap(), [1, 2, 3, 4]);
    let bools = all(open(files::BOOL));
    assert_eq!(bools.arrays()[0].dtype(), DType::Bool);
    assert_eq!(bools.arrays()[0].as_bytes(), [1, 0, 1]);
}

#[test]
fn bytes_of_a_bool_array_become_0_or_1() {
    let mut damaged = bytes(files::BOOL);
    *damaged.last_mut().unwrap() = 77;
    let (_dir, path) = file(&damaged);
    assert_eq!(all(Packed::open(path, "x").unwrap()).arrays()[0].as_bytes(), [1, 0, 1]);
}

/// A file that is too large to be held: every row is read when its sample is made. Row i of `cells`
/// numbers is i * cells, i * cells + 1, and so on.
fn large(order: &str, fortran: bool, rows: usize, cells: usize) -> Vec<u8> {
    let text = format!(
        "{{'descr': '{order}u4', 'fortran_order': {}, 'shape': ({rows}, {}, 2), }}\n",
        if fortran { "True" } else { "False" },
        cells / 2
    );
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.bytes());
    let value = |i: usize, j: usize, k: usize| (i * cells + 2 * j + k) as u32;
    let encode = |v: u32| if order == ">" { v.to_be_bytes() } else { v.to_le_bytes() };
    if fortran {
        for k in 0..2 {
            for j in 0..cells / 2 {
                file.extend((0..rows).flat_map(|i| encode(value(i, j, k))));
            }
        }
    } else {
        file.extend((0..(rows * cells) as u32).flat_map(encode));
    }
    file
}

#[test]
fn rows_that_are_read_one_by_one_are_the_same_in_every_layout() {
    // In row-major order rows beyond the limit are enough to be read one by one; in Fortran order it
    // takes a file beyond the limit, and few rows of it keep the test short.
    let cells = Packed::SMALL_ROW / 4 + 2;
    let c_rows = 40;
    let fortran_rows = Packed::HELD / 4 / cells + 1;
    for (order, fortran, rows) in [
        ("<", false, c_rows),
        (">", false, c_rows),
        ("<", true, fortran_rows),
        (">", true, fortran_rows),
    ] {
        let (_dir, path) = file(&large(order, fortran, rows, cells));
        let order = feedline_core::Order::Subset { indices: vec![3, 39, 0, 7], shuffle: false };
        let loader = Loader::builder(Packed::open(path, "x").unwrap())
            .batch_size(4)
            .order(order)
            .workers(2)
            .build()
            .unwrap();
        let batch = loader.epoch().next().unwrap().unwrap();
        let numbers = batch.arrays()[0].as_slice::<u32>().unwrap();
        for (row, index) in numbers.chunks(cells).zip([3u32, 39, 0, 7]) {
            let from = index * cells as u32;
            assert!(row.iter().copied().eq(from..from + cells as u32), "row {index}");
        }
    }
}

#[test]
fn a_shuffled_epoch_has_each_row_once() {
    let dir = folder(&[]);
    let path = dir.path().join("rows.npy");
    let cells = Packed::SMALL_ROW / 4 + 1;
    let mut writer = Writer::create(&path, DType::I32, [cells]).unwrap();
    for i in 0..100 {
        writer.row(&vec![i; cells]).unwrap();
    }
    writer.finish().unwrap();
    let loader = Loader::builder(Packed::open(&path, "x").unwrap())
        .batch_size(8)
        .shuffle(3)
        .workers(2)
        .build()
        .unwrap();
    let mut seen = Vec::new();
    for batch in loader.epoch() {
        let batch = batch.unwrap();
        for (row, index) in
            batch.arrays()[0].as_slice::<i32>().unwrap().chunks(cells).zip(batch.indices())
        {
            assert!(row.iter().all(|v| *v as u64 == index.0));
            seen.push(row[0]);
        }
    }
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..100));
}

#[test]
fn rows_without_elements_are_delivered() {
    let batch = all(open(files::EMPTY_ROWS));
    assert_eq!(batch.arrays()[0].shape(), [3, 0, 2]);
    assert_eq!(batch.arrays()[0].byte_len(), 0);
}

#[test]
fn a_file_without_rows_is_refused_by_the_plan() {
    let refused = Loader::builder(open(files::NO_ROWS)).build();
    assert!(matches!(refused, Err(BuildError::Plan(PlanError::EmptyDataset))), "{refused:?}");
}

#[test]
fn a_single_number_is_no_packed_file() {
    let (_dir, path) = file(&bytes(files::ZERO_D));
    let refused = Packed::open(path, "x");
    assert!(matches!(refused, Err(SourceError::ZeroDimensional { .. })));
}

#[test]
fn a_file_shorter_than_its_header_says_names_path_and_both_lengths() {
    let whole = bytes(files::F32);
    let (_dir, path) = file(&whole[..whole.len() - 1]);
    let message = Packed::open(&path, "x").unwrap_err().to_string();
    for part in [path.display().to_string(), whole.len().to_string(), (whole.len() - 1).to_string()]
    {
        assert!(message.contains(&part), "{message}");
    }
}

#[test]
fn bytes_after_the_data_are_ignored_as_numpy_does() {
    let mut longer = bytes(files::F32);
    longer.extend(b"more");
    let (_dir, path) = file(&longer);
    let batch = all(Packed::open(path, "x").unwrap());
    assert_eq!(batch.arrays()[0].as_slice::<f32>().unwrap().last(), Some(&2.5));
}

#[test]
fn a_file_that_shrinks_while_in_use_is_an_error_of_every_sample() {
    let cells = Packed::SMALL_ROW / 4 + 2;
    let (_dir, path) = file(&large("<", false, 10, cells));
    let packed = Packed::open(&path, "x").unwrap();
    let whole = std::fs::metadata(&path).unwrap().len();
    let data = packed.header().data_offset() as u64;
    let half = data + 5 * 4 * cells as u64;
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(half).unwrap();
    let errors = errors(packed);
    assert_eq!(errors.len(), 10);
    for error in errors {
        assert!(error.contains(&whole.to_string()) && error.contains(&half.to_string()), "{error}");
        assert!(error.contains("load"), "the stage: {error}");
    }
}

#[test]
fn what_is_not_a_file_is_refused_without_waiting_for_it() {
    let dir = folder(&[]);
    let message = Packed::open(dir.path(), "x").unwrap_err().to_string();
    assert!(message.contains("npy::Folder"), "{message}");
    let message = Packed::open(dir.path().join("none.npy"), "x").unwrap_err().to_string();
    assert!(message.contains("none.npy") && message.contains("cannot open"), "{message}");
}

#[test]
fn origins_name_file_and_row() {
    let packed = open(files::F32);
    let origin = packed.origin(SampleIndex(2)).unwrap();
    assert!(origin.ends_with("array.npy[2]"), "{origin}");
    assert_eq!(packed.header(), &NpyHeader::parse(&bytes(files::F32)).unwrap());
}

#[test]
fn skipped_rows_are_listed_with_their_origin() {
    let cells = Packed::SMALL_ROW / 4 + 2;
    let (_dir, path) = file(&large("<", false, 4, cells));
    let packed = Packed::open(&path, "x").unwrap();
    let cut = packed.header().data_offset() as u64 + 3 * 4 * cells as u64;
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
    let loader = Loader::builder(packed).batch_size(4).on_error(OnError::Skip).build().unwrap();
    assert_eq!(loader.epoch().map(|batch| batch.unwrap().len()).sum::<usize>(), 0);
    assert!(loader.errors()[3].to_string().contains("array.npy[3]"));
}
