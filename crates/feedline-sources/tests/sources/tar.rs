use std::fs;
use std::path::Path;
use std::sync::Arc;

use feedline_core::SampleIndex;
use feedline_sources::tar::Streaming;
use feedline_sources::{Encoded, Parts};

use crate::common::{all, errors};
use crate::shard_files::{Place, archive, content, gzip, numbered, parts, zstd};

#[test]
fn samples_are_read_from_all_shards_in_their_order() {
    let place = Place::new();
    let paths = [
        place.shard("a.tar", &numbered(0, 10)),
        place.shard("empty.tar", &archive(&[])),
        place.shard("b.tar", &numbered(10, 7)),
    ];
    let shards = place.open(&paths, Some(&["cls", "bin", "__key__"])).unwrap();
    assert_eq!(shards.len(), 17);
    for i in 0..17 {
        let key = format!("dir/{i:05}").into_bytes();
        assert_eq!(parts(&shards, i).unwrap(), [i.to_string().into_bytes(), content(i), key]);
        let shard = if i < 10 { "a.tar" } else { "b.tar" };
        assert!(shards.origin(SampleIndex(i)).unwrap().ends_with(&format!("{shard}[dir/{i:05}]")));
        let bytes = content(i).len() + i.to_string().len();
        assert_eq!(shards.cost_hint(SampleIndex(i)), Some(bytes as u64));
    }
    assert!(parts(&shards, 17).is_err());
    let batch = all(Parts::by_name(Arc::new(shards)).unwrap());
    let labels: Vec<i64> = (0..17).collect();
    assert_eq!(batch.get("cls").unwrap().as_slice::<i64>().unwrap(), labels);
}

#[test]
fn by_default_the_parts_are_those_of_the_first_sample() {
    let place = Place::new();
    let members: [(&str, &[u8]); 4] =
        [("1.JPG", b"x"), ("1.seg.PNG", b"y"), ("2.jpg", b"z"), ("2.seg.png", b"w")];
    let paths = [place.shard("a.tar", &archive(&members))];
    let shards = place.open(&paths, None).unwrap();
    assert_eq!(shards.parts(), ["jpg", "seg.png"]);
    assert_eq!(parts(&shards, 1).unwrap(), [b"z", b"w"]);
    let message = place.open(&paths, Some(&["png"])).unwrap_err().to_string();
    assert!(message.contains("`png`") && message.contains("jpg, seg.png"), "{message}");
    let message = place.open(&paths, Some(&["jpg", "JPG"])).unwrap_err().to_string();
    assert!(message.contains("`jpg`"), "{message}");
}

#[test]
fn a_part_may_have_one_of_several_extensions() {
    let place = Place::new();
    let members: [(&str, &[u8]); 3] = [("1.png", b"p"), ("2.jpeg", b"j"), ("3.gif", b"g")];
    let paths = [place.shard("a.tar", &archive(&members))];
    let shards = place.open(&paths, Some(&["jpg;jpeg;png"])).unwrap();
    assert_eq!(shards.parts(), ["jpg"]);
    assert_eq!(parts(&shards, 0).unwrap(), [b"p"]);
    assert_eq!(parts(&shards, 1).unwrap(), [b"j"]);
    assert!(parts(&shards, 2).unwrap_err().contains("no part `jpg`"));
}

#[test]
fn parts_far_apart_are_read_one_by_one() {
    let place = Place::new();
    let between = vec![7; 100_000];
    let members: [(&str, &[u8]); 4] =
        [("1.cls", b"5"), ("1.bin", &between), ("1.jpg", b"picture"), ("1.txt", b"")];
    let paths = [place.shard("a.tar", &archive(&members))];
    for wanted in [["cls", "txt", "jpg"], ["jpg", "cls", "txt"], ["txt", "jpg", "cls"]] {
        let shards = place.open(&paths, Some(&wanted)).unwrap();
        let mut raw = Vec::new();
        shards.load(SampleIndex(0), &mut raw).unwrap();
        assert_eq!(raw.len(), 8, "nothing between them is read");
        let streamed = place.stream(&paths, Some(&wanted), &Streaming::default()).unwrap();
        for source in [&shards as &dyn Encoded, &streamed] {
            let got = parts(source, 0).unwrap();
            for (name, got) in wanted.iter().zip(got) {
                let expected = members.iter().find(|m| m.0.ends_with(name)).unwrap().1;
                assert_eq!(got, expected, "{wanted:?}");
            }
        }
    }
}

#[test]
fn long_names_are_read_whichever_way_they_are_stored() {
    let place = Place::new();
    let key = format!("{}/ünïcode", "d/".repeat(120).trim_end_matches('/'));
    let mut builder = tar::Builder::new(Vec::new());
    for (part, content) in [("jpg", &b"one"[..]), ("cls", b"1")] {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_path("short").unwrap();
        header.set_cksum();
        let name = format!("{key}.{part}");
        builder.append_pax_extensions([("path", name.as_bytes()), ("comment", b"x")]).unwrap();
        builder.append(&header, content).unwrap();
    }
    let pax = place.shard("pax.tar", &builder.into_inner().unwrap());
    let names = [format!("{key}.jpg"), format!("{key}.cls")];
    let gnu = place.shard("gnu.tar", &archive(&[(&names[0], b"one"), (&names[1], b"1")]));
    for path in [pax, gnu] {
        let shards = place.open(&[path], Some(&["jpg", "cls", "__key__"])).unwrap();
        assert_eq!(parts(&shards, 0).unwrap(), [&b"one"[..], b"1", key.as_bytes()]);
    }
}

#[test]
fn an_archive_that_is_cut_anywhere_within_a_member_is_an_error_that_names_it() {
    let place = Place::new();
    let whole = numbered(1, 3);
    // Where members begin; there the rest may be missing without a trace.
    let mut starts = vec![0];
    let mut at = 0;
    for i in 1..4 {
        for size in [content(i).len(), i.to_string().len()] {
            at += 512 + size.next_multiple_of(512);
            starts.push(at);
        }
    }
    for cut in (1..whole.len()).filter(|cut| cut % 512 < 2 || cut % 512 == 511) {
        let opened = place.open(&[place.shard("cut.tar", &whole[..cut])], Some(&["bin"]));
        if starts.contains(&cut) || cut > at {
            let samples = starts[..6].iter().step_by(2).filter(|start| **start < cut).count();
            assert_eq!(opened.unwrap().len(), samples as u64, "cut at {cut}");
        } else {
            let message = opened.expect_err("cut within something").to_string();
            assert!(message.contains("cut.tar") && message.contains("cut off"), "{cut}: {message}");
        }
    }
    let message = place.open(&[place.shard("cut.tar", b"")], None).unwrap_err().to_string();
    assert!(message.contains("cut.tar") && message.contains("0 bytes"), "{message}");
}

#[test]
fn a_cut_within_a_compressed_shard_is_an_error_too() {
    let place = Place::new();
    for whole in [gzip(&numbered(0, 3)), zstd(&numbered(0, 3))] {
        for cut in (1..whole.len()).step_by(97).chain([whole.len() - 1]) {
            let path = place.shard("cut.tar", &whole[..cut]);
            let opened = place.stream(&[path], Some(&["bin"]), &Streaming::default());
            let message = opened.err().expect("cut").to_string();
            assert!(message.contains("cut.tar") && message.contains("cut off"), "{message}");
        }
        let mut flipped = whole.clone();
        let middle = whole.len() / 2;
        flipped[middle] ^= 0x55;
        let path = place.shard("cut.tar", &flipped);
        // A checksum notices what decompression does not.
        if let Ok(source) = place.stream(&[path], Some(&["bin"]), &Streaming::default()) {
            assert!((0..3).any(|i| parts(&source, i).map(|p| p[0] != content(i)) != Ok(true)));
        }
    }
}

#[test]
fn headers_that_lie_are_refused_without_allocating_what_they_claim() {
    let place = Place::new();
    let good = archive(&[("a.jpg", b"12345"), ("b.jpg", b"67890")]);
    let change = |edit: fn(&mut tar::Header)| {
        let mut bytes = good.clone();
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes().copy_from_slice(&bytes[..512]);
        edit(&mut header);
        header.set_cksum();
        bytes[..512].copy_from_slice(header.as_bytes());
        bytes
    };
    let mut wrong_sum = good.clone();
    wrong_sum[0] = b'z';
    let mut second = good.clone();
    second[1024] = b'z';
    for (bytes, what) in [
        (wrong_sum, "no tar archive"),
        (second, "at byte 1024"),
        (change(|h| h.set_size(8 << 30)), "claims 8589934592 bytes"),
        (change(|h| h.set_size(u64::MAX)), "cut off"),
        (change(|h| h.as_old_mut().size = *b"not a number"), "damaged"),
        (change(|h| h.set_entry_type(tar::EntryType::GNUSparse)), "holes"),
        (
            change(|h| {
                h.set_entry_type(tar::EntryType::GNULongName);
                h.set_size(1 << 40);
            }),
            "extended header of 1099511627776 bytes",
        ),
    ] {
        let path = place.shard("lying.tar", &bytes);
        let message = place.open(&[&path], None).unwrap_err().to_string();
        assert!(message.contains(what) && message.contains("lying.tar"), "{what}: {message}");
        let packed = place.shard("lying.tar.gz", &gzip(&bytes));
        let streamed = place.stream(&[packed], None, &Streaming::default());
        let message = streamed.err().expect("a lie").to_string();
        assert!(message.contains(what) && message.contains("lying.tar.gz"), "{what}: {message}");
    }
}

#[test]
fn what_is_compressed_otherwise_is_called_by_its_name() {
    let place = Place::new();
    for (start, what) in [
        (&b"\xfd7zXZ\0more of it"[..], "xz"),
        (b"BZh9 more of it", "bzip2"),
        (b"\x04\x22\x4d\x18 more of it", "lz4"),
        (b"PK\x03\x04 more of it", "zip"),
    ] {
        let path = place.shard("packed.tar", start);
        let message = place.open(&[path], None).unwrap_err().to_string();
        assert!(message.contains(what) && message.contains("packed.tar"), "{what}: {message}");
    }
}

#[test]
fn archives_one_behind_the_other_are_read_to_the_end() {
    let place = Place::new();
    let both = [numbered(0, 3), numbered(3, 2)].concat();
    let path = place.shard("both.tar", &both);
    assert_eq!(place.open(&[path], None).unwrap().len(), 5);
    // Neither do missing closing blocks matter.
    let open_ended = numbered(0, 3);
    let path = place.shard("open.tar", &open_ended[..open_ended.len() - 1024]);
    assert_eq!(place.open(&[path], None).unwrap().len(), 3);
}

#[test]
fn a_missing_part_is_an_error_of_its_sample_alone() {
    let place = Place::new();
    let members: [(&str, &[u8]); 5] =
        [("0.jpg", b"a"), ("0.cls", b"0"), ("1.jpg", b"b"), ("2.jpg", b"c"), ("2.cls", b"2")];
    let path = place.shard("a.tar", &archive(&members));
    let shards = place.open(&[path], Some(&["jpg", "cls"])).unwrap();
    let errors = errors(Parts::by_name(Arc::new(shards)).unwrap());
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("a.tar[1]") && errors[0].contains("no part `cls`"), "{}", errors[0]);
}

#[test]
fn labels_that_are_no_numbers_are_errors_of_their_samples() {
    let place = Place::new();
    let members: [(&str, &[u8]); 7] = [
        ("0.cls", b" 12\n"),
        ("1.cls", b"seven"),
        ("2.cls", b""),
        ("3.cls", b"99999999999999999999"),
        ("4.cls", b"-3"),
        ("5.cls", b"\xff\xfe"),
        ("6.cls", b"9223372036854775807"),
    ];
    let path = place.shard("a.tar", &archive(&members));
    let source = Parts::by_name(Arc::new(place.open(&[path], None).unwrap())).unwrap();
    let errors = errors(source);
    let expected = ["`seven`", "got ``", "64 bits", "\\xff\\xfe"];
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    for (message, part) in errors.iter().zip(expected) {
        assert!(message.contains(part) && message.contains("a.tar["), "{part}: {message}");
    }
}

#[test]
fn a_sample_beyond_the_limit_is_an_error_and_not_read() {
    let place = Place::new();
    let path = place.shard("a.tar", &archive(&[("0.jpg", &[1; 100]), ("1.jpg", &[2; 101])]));
    let options = feedline_sources::tar::TarOptions { max_bytes: 100, ..place.options(None) };
    let open = &mut |_| std::ops::ControlFlow::Continue(());
    let shards = feedline_sources::tar::Shards::open(&[path], &options, open).unwrap();
    assert!(parts(&shards, 0).is_ok());
    assert!(parts(&shards, 1).unwrap_err().contains("max_bytes"));
}

#[test]
fn a_shard_that_becomes_another_after_opening_is_an_error_of_its_samples() {
    let place = Place::new();
    let path = place.shard("a.tar", &numbered(0, 3));
    let shards = place.open(&[&path], Some(&["bin"])).unwrap();
    fs::write(&path, numbered(5, 3)).unwrap();
    assert!(parts(&shards, 0).unwrap_err().contains("changed"));
    let shards = place.open(&[&path], Some(&["bin"])).unwrap();
    assert_eq!(parts(&shards, 1).unwrap(), [content(6)]);
    fs::File::options().write(true).open(&path).unwrap().set_len(600).unwrap();
    assert!(parts(&shards, 2).unwrap_err().contains("changed"));
}

#[test]
fn more_shards_than_files_may_be_open_are_read_all_the_same() {
    let place = Place::new();
    let paths: Vec<_> =
        (0..300).map(|i| place.shard(&format!("{i:03}.tar"), &numbered(i, 1))).collect();
    let shards = place.open(&paths, Some(&["bin"])).unwrap();
    for i in (0..300).rev() {
        assert_eq!(parts(&shards, i).unwrap(), [content(i)]);
    }
}

/// The collection lies outside the repository and may be absent.
const ODD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/odd/tar");

#[test]
#[expect(clippy::print_stdout, reason = "a test that was skipped should say so")]
fn every_odd_shard_is_read_or_refused_as_it_should_be() {
    let dir = Path::new(ODD);
    if !dir.is_dir() {
        println!("skipped: there is no collection of odd files here");
        return;
    }
    let place = Place::new();
    let open = |name: &str, parts: &[&str]| place.open(&[dir.join(name)], Some(parts));
    let pairs = ["jpg", "cls"];
    for (name, samples) in [
        ("good.tar", 8),
        ("good_pax.tar", 4),
        ("good_gnu_longname.tar", 4),
        ("links_and_devices.tar", 2),
        ("no_end_blocks.tar", 8),
        ("empty.tar", 0),
        ("duplicate_keys.tar", 2),
    ] {
        let shards = open(name, &pairs).expect(name);
        assert_eq!(shards.len(), samples, "{name}");
        for i in 0..samples {
            let parts = parts(&shards, i).expect(name);
            assert!(parts[0].starts_with(b"\xff\xd8") && !parts[1].is_empty(), "{name}");
        }
    }
    for (name, what) in [
        ("truncated_in_member.tar", "cut off"),
        ("truncated_in_header.tar", "cut off"),
        ("zero_bytes.tar", "0 bytes"),
        ("bad_checksum.tar", "checksum"),
        ("huge_size_field.tar", "claims"),
        ("gzip_named.tar", "gzip"),
    ] {
        let message = open(name, &pairs).expect_err(name).to_string();
        assert!(message.contains(what) && message.contains(name), "{name}: {message}");
    }
    let gzipped = dir.join("gzip_named.tar");
    let streamed = place.stream(&[gzipped], Some(&pairs), &Streaming::default()).unwrap();
    assert_eq!(streamed.len(), 8);
    assert!(parts(&streamed, 7).is_ok());

    let traversal = open("traversal.tar", &["jpg", "__key__"]).unwrap();
    let keys: Vec<String> = (0..traversal.len())
        .map(|i| String::from_utf8(parts(&traversal, i).unwrap()[1].clone()).unwrap())
        .collect();
    assert_eq!(keys, ["../x", "../../../../evil", "/abs/evil", "a/../../b", "ok"]);

    let lacking = |name: &str| {
        let shards = open(name, &pairs).expect(name);
        (0..shards.len()).filter(|i| parts(&shards, *i).is_err()).collect::<Vec<_>>()
    };
    assert_eq!(lacking("missing_cls.tar"), [1]);
    assert_eq!(lacking("interleaved.tar"), [0, 1, 2, 3]);

    let dots = open("dots_in_name.tar", &["0001.jpg", "0001.seg.png", "cls", "__key__"]).unwrap();
    assert_eq!((dots.len(), &parts(&dots, 0).unwrap()[3][..]), (1, &b"dir.v1/img"[..]));

    let bad_cls = errors(Parts::by_name(Arc::new(open("bad_cls.tar", &pairs).unwrap())).unwrap());
    assert_eq!(bad_cls.len(), 3, "{bad_cls:?}");
    let corrupt = open("corrupt_sample.tar", &pairs).unwrap();
    assert!((0..3).all(|i| parts(&corrupt, i).is_ok()), "the container is fine");
}
