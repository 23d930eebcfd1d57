//! `feedline show`: samples to look at.

use feedline_bench::experiment::SessionEvent;
use feedline_bench::show::ShowRequest;
use serde_json::Value;

use crate::arguments::Show;
use crate::bench::{explain, print};
use crate::printer::Printer;
use crate::progress::RunBar;
use crate::{Exit, Trouble};

/// Draws samples and says where the picture is.
pub(crate) fn show(arguments: Show, printer: &Printer) -> Result<Exit, Trouble> {
    let Show { source, mask, out, count, which, size, columns, window, json, python } = arguments;
    let window = window.map(|it| it.0);
    let request =
        ShowRequest { source, mask, out, count, which, size, columns, window, seed: None };
    let bar = RunBar::new(printer);
    let drawn = request.draw(&python, |done, of| {
        bar.follow(SessionEvent::Prepares { what: "drawing", done, of });
    });
    drop(bar);
    let shown = drawn.map_err(explain)?;
    let text = if json { shown.to_string() } else { words(&shown) };
    print(printer, &(text + "\n"))
}

fn words(shown: &Value) -> String {
    let text = |key: &str| shown[key].as_str().unwrap_or_default();
    let drawn = shown["shown"].as_array().map_or(0, Vec::len);
    let kind = match text("kind") {
        "tar" => "samples of shards",
        kind => kind,
    };
    format!("{drawn} of {} {kind} in {}", shown["samples"], text("out"))
}
