//! What a member's name says: which sample it belongs to, and which part of it it is.

/// Splits a name into key and extensions, by webdataset's rule: the key goes up to the first dot of
/// the base name. `None` for members that belong to no sample: names without an extension, hidden
/// ones, and `__…__` at the top, which webdataset keeps for itself.
///
/// Names are data: `..` and a leading `/` are letters of the key like any others.
pub(super) fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    if is_reserved(name) {
        return None;
    }
    let base = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let dot = base + name[base..].iter().position(|byte| *byte == b'.')?;
    // Webdataset takes `a/.b.jpg` for part `b.jpg` of `a/`; what hides is left alone here.
    (dot > base && dot + 1 < name.len()).then(|| (&name[..dot], &name[dot + 1..]))
}

/// Whether the first component is `__…__`.
fn is_reserved(name: &[u8]) -> bool {
    let first = name.split(|byte| *byte == b'/').next().unwrap_or(name);
    first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_goes_up_to_the_first_dot_of_the_base_name() {
        let split = |name: &'static str| {
            let (key, parts) = super::split(name.as_bytes())?;
            Some((std::str::from_utf8(key).unwrap(), std::str::from_utf8(parts).unwrap()))
        };
        assert_eq!(split("0.jpg"), Some(("0", "jpg")));
        assert_eq!(split("dir.v1/img.0001.seg.png"), Some(("dir.v1/img", "0001.seg.png")));
        assert_eq!(split("../../x.jpg"), Some(("../../x", "jpg")));
        assert_eq!(split("/abs/x.jpg"), Some(("/abs/x", "jpg")));
        for none in
            ["README", "a.", "dir.v1/README", ".hidden.jpg", "a/.b.jpg", "__meta__/a.jpg", ""]
        {
            assert_eq!(split(none), None, "{none}");
        }
        assert_eq!(split("__a__.jpg"), Some(("__a__", "jpg")));
    }

    #[test]
    fn reserved_names_are_those_of_webdatasets_pattern() {
        assert!(is_reserved(b"____") && is_reserved(b"__a__") && is_reserved(b"__a__/b"));
        assert!(!is_reserved(b"__a") && !is_reserved(b"___") && !is_reserved(b"x/__a__"));
    }
}
