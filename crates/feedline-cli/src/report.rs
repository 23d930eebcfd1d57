//! `feedline report`: results redrawn, and two runs compared.

use std::path::Path;

use feedline_bench::output::{Document, change};
use feedline_bench::results::{find, read};

use crate::arguments::ReportArguments;
use crate::bench::{explain, print};
use crate::printer::Printer;
use crate::{Exit, Trouble};

/// Redraws, or compares.
pub(crate) fn report(arguments: ReportArguments, printer: &Printer) -> Result<Exit, Trouble> {
    let text = match &arguments.second {
        Some(second) => compared(&arguments.first, second, arguments.json)?,
        None => redrawn(&arguments.first, arguments.json)?,
    };
    print(printer, &text)
}

fn redrawn(path: &Path, json: bool) -> Result<String, Trouble> {
    let mut text = String::new();
    for folder in find(path).map_err(explain)? {
        let results = read(&folder).map_err(explain)?;
        let document = Document::new(&results).map_err(explain)?;
        let place =
            if folder.is_dir() { folder.as_path() } else { folder.parent().unwrap_or(&folder) };
        let page = document.write(place).map_err(explain)?;
        text += &if json {
            format!("{}\n", document.json())
        } else {
            format!("{}\nReport: {}\n", document.terminal(), page.display())
        };
    }
    Ok(text)
}

fn compared(first: &Path, second: &Path, json: bool) -> Result<String, Trouble> {
    let before = read(first).map_err(explain)?;
    let after = read(second).map_err(explain)?;
    let comparison = change::compare(&before, &after).map_err(explain)?;
    if !json {
        return Ok(comparison.text(&before.header.unit));
    }
    let text = serde_json::to_string(&comparison);
    text.map(|text| text + "\n").map_err(|error| Trouble::new(Exit::Usage, error))
}
