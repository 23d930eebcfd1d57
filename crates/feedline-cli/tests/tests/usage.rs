use super::{feedline, finish};

#[test]
fn help_and_version_are_data() {
    for arguments in [&["--help"][..], &["--version"], &["measure", "--help"], &["help", "measure"]]
    {
        let (code, out, err) = finish(arguments);
        assert_eq!((code, &*err), (0, ""), "{arguments:?}");
        assert!(out.contains("feedline"), "{arguments:?}");
    }
}

#[test]
fn wrong_usage_is_talk_and_exit_code_2() {
    for (arguments, expected) in [
        (&[][..], "Usage: feedline"),
        (&["measre"], "unrecognized subcommand 'measre'"),
        (&["measure"], "<NAME=COMMAND>"),
        (&["measure", "--rounds", "0", "a=true"], "0 is not in 1.."),
        (&["measure", "--rounds", "-1", "a=true"], "'-1'"),
        (&["measure", "--rounds", "many", "a=true"], "invalid digit"),
        (&["measure", "true"], "write it as NAME=COMMAND"),
        (&["measure", "=true"], "the name before `=` is empty"),
        (&["measure", "a="], "the command after `=` is empty"),
        (&["measure", "a=sh -c 'unclosed"], "cannot split the command"),
        (&["measure", "--require", "a>b", "a=true"], "cannot read the requirement `a>b`"),
        (&["measure", "--from", "x.jsonl", "a=true"], "cannot be used with"),
        (&["measure", "a=true", "a=true"], "error: two sides are called `a`"),
        (
            &["measure", "--require", "a/c>=1", "a=true"],
            "error: there is no side `c`; the sides are: a",
        ),
    ] {
        let (code, out, err) = finish(arguments);
        assert_eq!((code, &*out), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}

#[test]
fn colours_follow_the_flag_and_the_environment() {
    let wrong = |flag: &[&str], variable: Option<&str>| {
        let mut command = feedline(flag);
        command.args(["measure", "--from", "no-such-file.jsonl"]);
        if let Some(variable) = variable {
            command.env(variable, "1");
        }
        String::from_utf8(command.output().unwrap().stderr).unwrap().contains('\u{1b}')
    };
    assert!(!wrong(&[], None), "no terminal, no colours");
    assert!(wrong(&["--color", "always"], None));
    assert!(wrong(&["--color", "always"], Some("NO_COLOR")), "the flag is the stronger word");
    assert!(wrong(&[], Some("CLICOLOR_FORCE")));
    assert!(!wrong(&["--color", "never"], Some("CLICOLOR_FORCE")));
    assert!(!wrong(&[], Some("NO_COLOR")));
}

#[test]
fn the_function_gives_the_code_instead_of_ending_the_process() {
    let run = |arguments: &[&str]| feedline_cli::run(arguments.iter().map(Into::into));
    assert_eq!(run(&["feedline", "--version"]), 0);
    assert_eq!(run(&["feedline", "measure", "--rounds", "0", "a=true"]), 2);
    assert_eq!(run(&["feedline", "measure", "-q", "--rounds", "1", "a=false"]), 3);
}
