use std::time::Duration;

use feedline_bench::{
    Agreement, Contest, Machine, Outcome, Report, Settings, VirtualClock, VirtualProbe,
    read_records, table,
};

fn fixed() -> Report {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/records/two_sides.jsonl");
    Report::of(&read_records(path).unwrap()[0])
}

#[test]
fn a_fixed_record_file_gives_a_fixed_table() {
    insta::assert_snapshot!(table::markdown(&fixed()), @r"
    ## packed rows, batch 256

    | side     | samples/s |  bytes/s | per item |    run | spread |    CPU | PSS peak |     others |       rate vs torch |
    | -------- | --------: | -------: | -------: | -----: | -----: | -----: | -------: | ---------: | ------------------: |
    | torch    |    50.0 k | 3.43 MiB |  20.0 us | 2.00 s |  3.6 % | 3.50 s |  858 MiB | 0.05 cores |                   1 |
    | feedline |     200 k | 13.7 MiB |  5.00 us | 500 ms | 12.5 % | 900 ms |  296 MiB | 0.05 cores | 3.90 x [3.50, 4.00] |

    | figure        |  torch | feedline |
    | ------------- | -----: | -------: |
    | first_batch_s | 0.0500 |   0.0200 |

    - medians of 6 interleaved rounds, 1 warm-up round before
    - [low, high] holds the true median ratio with 96.9 % confidence
    - outputs compared: equal in every run
    - Example CPU, 2 usable cores, 16.0 GiB, linux x86_64, kernel 6.1.0, rustc 1.95.0, feedline 0.1.0, torch 2.9.1
    - warning: others used up to 0.31 cores during runs of torch; repeat on a quiet machine
    - warning: the runs of feedline spread over 12 % of their median; use more or longer rounds
    - required rate of feedline / torch >= 3 x: reached 3.9 x [3.5, 4]
    - required first_batch_s of feedline <= 0.01: NOT reached, 0.02 [0.02, 0.02]

    feedline ran 3.90 x [3.50, 4.00] as fast as torch.
    ");
}

#[test]
fn names_cannot_break_the_table() {
    let clock = VirtualClock::new();
    let mut settings = Settings::new("a title\n| with | bars");
    settings.rounds = 1;
    settings.agreement = Agreement::unchecked("two\nlines");
    let mut report = Contest::new(settings)
        .side("a|b\n| c |", |_| {
            clock.advance(Duration::from_secs(1));
            Ok(Outcome::items(1).figure("x|y", 1.0))
        })
        .probe(VirtualProbe::new(clock.clone()))
        .run()
        .unwrap();
    report.machine = Machine::default();
    report.machine.system = "linux".into();
    report.machine.feedline = "1.2.3".into();
    insta::assert_snapshot!(table::markdown(&report), @r"
    ## a title \| with \| bars

    | side         | items/s | per item |    run | spread | CPU | PSS peak | others | rate vs a\|b \| c \| |
    | ------------ | ------: | -------: | -----: | -----: | --: | -------: | -----: | -------------------: |
    | a\|b \| c \| |    1.00 |   1.00 s | 1.00 s |      ? |   ? |        ? |      ? |                    1 |

    | figure | a\|b \| c \| |
    | ------ | -----------: |
    | x\|y   |         1.00 |

    - medians of 1 interleaved round, 1 warm-up round before
    - outputs NOT compared: two lines
    - unknown processor, linux, feedline 1.2.3
    - warning: 1 round cannot give a 95 % interval; use at least 6
    ");
}

#[test]
fn figures_that_the_system_does_not_tell_are_shown_as_unknown() {
    let clock = VirtualClock::new();
    let mut settings = Settings::new("nothing known");
    settings.rounds = 7;
    let report = Contest::new(settings)
        .side("a", |_| Ok(Outcome::items(0).digest(feedline_bench::Digest::of(b""))))
        .probe(VirtualProbe::new(clock))
        .run()
        .unwrap();
    let table = table::markdown(&report);
    let row = table.lines().find(|line| line.starts_with("| a ")).unwrap();
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    assert_eq!(cells, ["a", "?", "?", "0 s", "?", "?", "?", "?", "1"]);
}
