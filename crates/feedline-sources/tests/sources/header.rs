use feedline_core::DType;
use feedline_sources::npy::{HeaderError, NpyHeader};
use proptest::prelude::*;

use crate::numpy_files::{self as files, bytes};

/// A file of version 1.0 with this text.
fn with_text(text: &str) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.bytes());
    file
}

fn refused(text: &str) -> HeaderError {
    NpyHeader::parse(&with_text(text)).expect_err(text)
}

#[test]
fn what_numpy_writes_is_understood() {
    let cases: [(&str, DType, bool, bool, &[usize]); 11] = [
        (files::F32, DType::F32, false, false, &[3, 2]),
        (files::FORTRAN_I16, DType::I16, false, true, &[2, 3, 2]),
        (files::BIG_ENDIAN_F64, DType::F64, true, false, &[2]),
        (files::BIG_ENDIAN_C64, DType::C64, true, false, &[1]),
        (files::BOOL, DType::Bool, false, false, &[3]),
        (files::F16, DType::F16, false, false, &[2]),
        (files::VERSION_2, DType::I64, false, false, &[2]),
        (files::VERSION_3, DType::U8, false, false, &[2]),
        (files::ZERO_D, DType::F64, false, false, &[]),
        (files::NO_ROWS, DType::F32, false, false, &[0, 3]),
        (files::EMPTY_ROWS, DType::F32, false, false, &[3, 0, 2]),
    ];
    for (hex, dtype, big_endian, fortran, shape) in cases {
        let file = bytes(hex);
        let header = NpyHeader::parse(&file).expect("NumPy wrote it");
        assert_eq!(header.dtype(), dtype);
        assert_eq!(header.is_byte_swapped(), big_endian == cfg!(target_endian = "little"));
        assert_eq!(header.is_fortran_order(), fortran);
        assert_eq!(header.shape(), shape);
        assert_eq!(header.data_offset() % 64, 0, "NumPy aligns the data");
        assert_eq!(header.data_offset() + header.data_bytes(), file.len());
    }
}

#[test]
fn dtypes_without_numbers_are_refused_with_advice() {
    let cases = [
        (files::OBJECT, "re-save it without dtype=object"),
        (files::STRUCTURED, "np.save(path, a['name'])"),
        (files::UNICODE, "strings"),
        (files::DATE, "a.astype(np.int64)"),
    ];
    for (hex, advice) in cases {
        let message = NpyHeader::parse(&bytes(hex)).expect_err("no numbers").to_string();
        assert!(message.contains(advice), "{message}");
    }
}

#[test]
fn other_files_are_recognised() {
    let hint = |file: &[u8]| NpyHeader::parse(file).expect_err("no .npy file").to_string();
    assert!(hint(b"").contains("empty"));
    assert!(hint(b"PK\x03\x04rest").contains(".npz"));
    assert!(hint(b"\x80\x04\x95").contains("pickle"));
    assert!(hint(b"\x93NUM").contains("ends within"));
    assert!(hint(b"\x89PNG\r\n").contains("np.save"));
}

#[test]
fn a_header_cut_anywhere_is_an_error_and_never_the_whole() {
    let file = bytes(files::VERSION_2);
    let end = NpyHeader::parse(&file).expect("NumPy wrote it").data_offset();
    for cut in 0..end {
        assert!(NpyHeader::parse(&file[..cut]).is_err(), "{cut} of {end} bytes");
    }
    assert_eq!(
        NpyHeader::parse(&file[..end - 1]),
        Err(HeaderError::Truncated { expected: end, actual: end - 1 })
    );
}

#[test]
fn a_length_beyond_reason_is_refused_before_anything_is_read() {
    let mut file = b"\x93NUMPY\x02\x00".to_vec();
    file.extend(u32::MAX.to_le_bytes());
    let refused = NpyHeader::parse(&file);
    assert!(matches!(refused, Err(HeaderError::TooLong { length: 0xFFFF_FFFF, .. })));
}

#[test]
fn unknown_versions_are_named() {
    let refused = NpyHeader::parse(b"\x93NUMPY\x04\x01\x00\x00");
    assert_eq!(refused, Err(HeaderError::Version { major: 4, minor: 1 }));
}

#[test]
fn text_that_is_not_utf8_is_refused_in_version_3_and_latin_1_before() {
    let text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), '\xe9': 1}";
    for (version, expected) in
        [(1, HeaderError::UnknownKey { key: "é".into() }), (3, HeaderError::NotUtf8 { at: 57 })]
    {
        let mut file = b"\x93NUMPY".to_vec();
        file.extend([version, 0, text.len() as u8, 0]);
        if version == 3 {
            file.extend([0, 0]);
        }
        file.extend(text);
        assert_eq!(NpyHeader::parse(&file), Err(expected));
    }
}

#[test]
fn the_dictionary_may_be_written_in_other_ways() {
    let shape = |text: &str| NpyHeader::parse(&with_text(text)).expect(text).shape().to_vec();
    assert_eq!(shape("{'shape':(2,),'fortran_order':False,'descr':'f4'}"), [2]);
    assert_eq!(
        shape("{\"descr\": \"<f4\", \"fortran_order\": True, \"shape\": (2, 3,), }\n"),
        [2, 3]
    );
    assert_eq!(
        shape(" { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( ) } "),
        [0_usize; 0]
    );
    // Python 2 on Windows.
    assert_eq!(shape("{'descr': '<f4', 'fortran_order': False, 'shape': (5L, 3L)}"), [5, 3]);
}

#[test]
fn anything_but_the_dictionary_is_refused() {
    let rest = "'fortran_order': False, 'shape': (1,)";
    for text in [
        "",
        "{",
        "{}",
        "[]",
        "{'descr': '<f4'}",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} 7",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (2,)}",
        "{'descr': '<f\\x34', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4",
        "{'descr': '<f4' 'fortran_order': False}",
    ] {
        refused(text);
    }
    let nested = format!("{{'descr': {}, {rest}}}", "[".repeat(20_000));
    assert!(matches!(refused(&nested), HeaderError::DType { .. }));
}

#[test]
fn impossible_shapes_are_refused() {
    let shape = |shape: &str| {
        refused(&format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}"))
    };
    assert!(matches!(shape("(-1, 3)"), HeaderError::NegativeAxis { .. }));
    assert!(matches!(shape("(99999999999999999999999,)"), HeaderError::HugeAxis { .. }));
    assert!(matches!(shape("(4294967296, 4294967296, 4294967296)"), HeaderError::Overflow { .. }));
    assert!(matches!(shape("(1152921504606846976,)"), HeaderError::Overflow { .. }));
    assert!(matches!(shape(&format!("({})", "1,".repeat(65))), HeaderError::TooManyAxes { .. }));
    let empty = "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 9, 0)}";
    assert_eq!(NpyHeader::parse(&with_text(empty)).expect("no element").data_bytes(), 0);
}

/// One of NumPy's files with some bytes changed.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let file = proptest::sample::select(vec![files::F32, files::VERSION_2, files::STRUCTURED]);
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8);
    (file, changes).prop_map(|(hex, changes)| {
        let mut file = bytes(hex);
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file
    })
}

/// Texts of the pieces that headers are made of.
fn pieces() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "'",
        "\"",
        ",",
        ":",
        "descr",
        "'descr'",
        "'shape'",
        "'<f4'",
        "1",
        "99999999999999999999",
        "-",
        "True",
        "False",
        "'fortran_order'",
        " ",
        "\n",
        "\\",
        "L",
        "é",
    ]);
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_the_parser_panic(file in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = NpyHeader::parse(&file);
    }

    #[test]
    fn no_damage_makes_the_parser_panic_or_claim_bytes_beyond_the_address_space(file in mutated()) {
        if let Ok(header) = NpyHeader::parse(&file) {
            prop_assert!(header.data_offset() <= file.len());
            prop_assert!(header.data_bytes().checked_add(header.data_offset()).is_some());
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in pieces()) {
        let _ = NpyHeader::parse(&with_text(&text));
    }
}
