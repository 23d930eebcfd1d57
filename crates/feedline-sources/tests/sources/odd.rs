use std::path::Path;

use feedline_core::Dataset;
use feedline_sources::npy::Packed;

use crate::common::all;

/// The collection lies outside the repository and may be absent.
const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/odd/npy");

#[test]
#[expect(clippy::print_stdout, reason = "a test that was skipped should say so")]
fn every_odd_file_is_loaded_or_refused_as_it_should_be() {
    let dir = Path::new(DIR);
    if !dir.is_dir() {
        println!("skipped: there is no collection of odd files here");
        return;
    }
    let open = |name: &str| Packed::open(dir.join(name), "x");

    let c = all(open("good_f32.npy").expect("float32"));
    let fortran = all(open("good_fortran.npy").expect("Fortran order"));
    assert_eq!(c.arrays()[0].shape(), [3, 8, 8]);
    assert_eq!(fortran.arrays()[0].shape(), [3, 8, 8]);
    let big = all(open("good_big_endian.npy").expect("big endian"));
    let counted: Vec<i32> = (0..24).collect();
    assert_eq!(big.arrays()[0].as_slice::<i32>().expect("int32"), counted);
    assert!(open("good_empty.npy").expect("no rows").is_empty());

    for (name, what) in [
        ("good_scalar.npy", "a.reshape(1)"),
        ("object_pickle.npy", "dtype=object"),
        ("structured.npy", "structured"),
        ("truncated.npy", "cut off"),
        ("truncated_header.npy", "header needs"),
        ("huge_shape.npy", "has "),
        ("code_in_header.npy", "malformed"),
        ("bad_magic.npy", "no .npy file"),
    ] {
        let message = open(name).expect_err(name).to_string();
        assert!(message.contains(what) && message.contains(name), "{name}: {message}");
    }
}
