use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::finish;

/// An interpreter that answers with these lines, each with its line break, whatever it is asked; the request is kept beside it.
fn interpreter(folder: &Path, lines: &str) -> String {
    let path = folder.join("python");
    let asked = folder.join("asked.json");
    let script = format!("#!/bin/sh\nhead -n 1 > {}\ncat <<'END'\n{lines}END\n", asked.display());
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

const DRAWN: &str = r#"{"done": 0, "of": 1}
{"shown": {"source": "data", "kind": "volumes", "samples": 9, "shown": [{"index": 4}], "out": "a.png"}}
"#;

#[test]
fn it_says_where_the_picture_is() {
    let folder = tempfile::tempdir().unwrap();
    let python = interpreter(folder.path(), DRAWN);
    let arguments = ["show", "data", "--which", "4,2", "--window", "-160,240", "--out", "a.png"];
    let (code, said, err) = finish(&[&arguments[..], &["--python", &python]].concat());
    assert_eq!((code, &*said, &*err), (0, "1 of 9 volumes in a.png\n", ""));
    let asked = fs::read_to_string(folder.path().join("asked.json")).unwrap();
    insta::assert_snapshot!(asked.trim(), @r#"{"columns":null,"count":6,"mask":null,"out":"a.png","seed":null,"size":192,"source":"data","which":[4,2],"window":[-160.0,240.0]}"#);
}

#[test]
fn json_is_what_the_drawer_tells() {
    let folder = tempfile::tempdir().unwrap();
    let python = interpreter(folder.path(), DRAWN);
    let (code, said, _) = finish(&["show", "data", "--json", "--python", &python]);
    assert_eq!(code, 0);
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["shown"][0]["index"], 4);
}

#[test]
fn what_goes_wrong_comes_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let failed = r#"{"error": "there is no data", "hint": "look again"}
"#;
    for (lines, expected, code) in [
        (failed, "error: there is no data\n\nhint: look again", 2),
        ("", "error: the process that draws ended (exit status: 0)", 3),
        ("chatter\n", "answered what is no JSON", 3),
    ] {
        let python = interpreter(folder.path(), lines);
        let (found, said, err) = finish(&["show", "data", "--python", &python]);
        assert_eq!((found, &*said), (code, ""), "{err}");
        assert!(err.contains(expected), "{err}");
    }
    let (code, _, err) = finish(&["show", "data", "--python", "/no/such/python"]);
    assert_eq!(code, 2);
    assert!(err.contains("pass --python PATH"), "{err}");
}

#[test]
fn wrong_options_are_refused() {
    for (arguments, expected) in [
        (&["show"][..], "<SOURCE>"),
        (&["show", "a", "--window", "240,-160"], "the lower one first"),
        (&["show", "a", "--window", "0,inf"], "the lower one first"),
        (&["show", "a", "--which", "-1"], "'-1'"),
        (&["show", "a", "--which", "1", "--count", "2"], "cannot be used with"),
        (&["show", "a", "--size", "8"], "8 is not in 16..=4096"),
    ] {
        let (code, said, err) = finish(arguments);
        assert_eq!((code, &*said), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}
