//! One page that needs nothing else: style, script and charts are in it.

use std::fmt::Write as _;

use super::{Document, Grid, left_out};
use crate::chart::{Chart, ChartForm, STYLE, escaped, page_rules, page_variables};

const STYLES: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page in the style of the reports.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// What it is of, above the title: a command.
    pub kind: &'a str,
    /// Its title.
    pub title: &'a str,
    /// What it answers, below the title.
    pub question: &'a str,
    /// What it shows, as HTML.
    pub body: &'a str,
    /// A style sheet of its own.
    pub style: &'a str,
    /// A script of its own.
    pub script: &'a str,
}

impl Page<'_> {
    /// The whole page.
    pub fn html(&self) -> String {
        let title = escaped(self.title);
        let styles = STYLES
            .replace("/*light*/", &page_variables(false))
            .replace("/*dark*/", &page_variables(true));
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} – feedline</title>\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <style>\n{styles}\n{STYLE}{}\n{}</style>\n</head>\n<body>\n\
             <header><div><p class=\"kind\">{}</p><h1>{title}</h1><p class=\"question\">{}</p></div>\
             <button id=\"theme\" type=\"button\" aria-label=\"Change between light and dark\">◐</button></header>\n\
             <main>\n{}</main>\n<script>\n{SCRIPT}{}</script>\n</body>\n</html>\n",
            page_rules(),
            self.style,
            escaped(self.kind),
            escaped(self.question),
            self.body,
            self.script,
        )
    }
}

pub(super) fn draw(document: &Document<'_>) -> String {
    let header = &document.results.header;
    let mut body = String::new();
    verdict(&mut body, document);
    charts(&mut body, &document.view.charts);
    table(&mut body, document);
    not_run(&mut body, document);
    method(&mut body, document);
    let page = Page {
        kind: &format!("feedline bench {}", header.experiment),
        title: &header.title,
        question: &header.question,
        body: &body,
        style: "",
        script: "",
    };
    page.html()
}

fn verdict(out: &mut String, document: &Document<'_>) {
    let cautions = document.cautions();
    if !cautions.is_empty() {
        out.push_str("<ul class=\"cautions\" aria-label=\"Cautions\">\n");
        cautions.iter().for_each(|it| {
            let _ = writeln!(out, "<li>{}</li>", escaped(it));
        });
        out.push_str("</ul>\n");
    }
    if !document.view.tiles.is_empty() {
        out.push_str("<dl class=\"tiles\">\n");
        for tile in &document.view.tiles {
            let _ = writeln!(
                out,
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escaped(&tile.label),
                escaped(&tile.figure)
            );
        }
        out.push_str("</dl>\n");
    }
    if !document.view.verdict.is_empty() {
        out.push_str("<section class=\"card verdict\" aria-labelledby=\"verdict\">\n<h2 id=\"verdict\">Verdict</h2>\n<ul>\n");
        for sentence in &document.view.verdict {
            let _ = writeln!(out, "<li>{}</li>", escaped(sentence));
        }
        out.push_str("</ul>\n</section>\n");
    }
}

fn charts(out: &mut String, charts: &[Chart]) {
    out.push_str("<div class=\"charts\">\n");
    let mut rest = charts;
    while let Some(first) = rest.first() {
        // Charts of one heading, of which the page shows one at a time.
        let count = match first.choice {
            Some(_) => {
                rest.iter().take_while(|it| it.title == first.title && it.choice.is_some()).count()
            }
            None => 1,
        };
        let (group, after) = rest.split_at(count.max(1));
        figure(out, group);
        rest = after;
    }
    out.push_str("</div>\n");
}

fn figure(out: &mut String, group: &[Chart]) {
    let Some(first) = group.first() else { return };
    let title = escaped(&first.title);
    let shown = group.iter().position(|chart| chart.is_first).unwrap_or(0);
    let _ = writeln!(out, "<figure class=\"card\">\n<div class=\"head\"><h2>{title}</h2>");
    if group.len() > 1 {
        let _ = writeln!(out, "<select aria-label=\"{title}: which\">");
        for (place, chart) in group.iter().enumerate() {
            let name = escaped(chart.choice.as_deref().unwrap_or_default());
            let selected = if place == shown { " selected" } else { "" };
            let _ = writeln!(out, "<option value=\"{place}\"{selected}>{name}</option>");
        }
        out.push_str("</select>");
    }
    out.push_str("</div>\n");
    for (place, chart) in group.iter().enumerate() {
        let hidden = if place == shown { "" } else { " hidden" };
        let _ = writeln!(out, "<div class=\"drawing\"{hidden}>");
        out.push_str(&chart.svg(ChartForm::Wide));
        out.push_str(&chart.svg(ChartForm::Narrow));
        out.push_str("</div>\n");
    }
    let _ = writeln!(out, "<figcaption>{}</figcaption>\n</figure>", escaped(&first.caption));
}

fn table(out: &mut String, document: &Document<'_>) {
    let grid = Grid::of(document);
    out.push_str(
        "<section class=\"card\" aria-labelledby=\"all\">\n<h2 id=\"all\">All points</h2>\n\
         <p class=\"soft\">Medians over the rounds. Choose a heading to sort by it.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"all\">\n<table>\n<thead><tr>",
    );
    for (head, is_figure) in &grid.heads {
        let class = if *is_figure { " class=\"num\"" } else { "" };
        let _ = write!(
            out,
            "<th scope=\"col\"{class} aria-sort=\"none\"><button type=\"button\">{}</button></th>",
            escaped(head)
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &grid.rows {
        out.push_str("<tr>");
        for (entry, (_, is_figure)) in row.iter().zip(&grid.heads) {
            let class = if *is_figure { " class=\"num\"" } else { "" };
            let value = entry.number.map(|it| format!(" data-v=\"{it}\"")).unwrap_or_default();
            let bar = entry.bar.map(|share| {
                format!(
                    "<span class=\"bar\" style=\"width:{:.0}%\" aria-hidden=\"true\"></span>",
                    share * 100.0
                )
            });
            let _ = write!(
                out,
                "<td{class}{value}>{}{}</td>",
                bar.unwrap_or_default(),
                escaped(&entry.text)
            );
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n</section>\n");
}

fn not_run(out: &mut String, document: &Document<'_>) {
    let results = document.results;
    if results.not_run.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<section class=\"card\" aria-labelledby=\"left-out\">\n<h2 id=\"left-out\">Not run</h2>\n<details{}>\n\
         <summary>{} points</summary>\n<ul>",
        if results.not_run.len() <= 8 { " open" } else { "" },
        results.not_run.len()
    );
    for it in &results.not_run {
        let _ = writeln!(out, "<li>{}</li>", escaped(&left_out(results, it)));
    }
    out.push_str("</ul>\n</details>\n</section>\n");
}

fn method(out: &mut String, document: &Document<'_>) {
    let header = &document.results.header;
    out.push_str(
        "<section class=\"card\" aria-labelledby=\"method\">\n<h2 id=\"method\">How it was measured</h2>\n<ul>\n",
    );
    for sentence in document.method().iter().chain(&header.notes) {
        let _ = writeln!(out, "<li>{}</li>", escaped(sentence));
    }
    out.push_str("</ul>\n<dl class=\"facts\">\n");
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(&value));
    };
    fact("Machine", header.machine.to_string());
    if let Some(why) = &header.machine.no_gpu {
        fact("GPU", why.clone());
    }
    let versions = header.versions.iter().map(|(name, version)| format!("{name} {version}"));
    let versions = versions.collect::<Vec<_>>().join(", ");
    if !versions.is_empty() {
        fact("Versions", versions);
    }
    fact("Started", utc(header.started_unix_s));
    if let Some(settings) = header.settings.as_object() {
        for (name, value) in settings {
            fact(name, value.to_string().replace(',', ", ").replace('"', ""));
        }
    }
    out.push_str("</dl>\n</section>\n");
}

/// Seconds since 1970 as a date and time, by the civil-from-days algorithm of Howard Hinnant.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (rest / 3600, rest % 3600 / 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(utc(4_102_444_799), "2099-12-31 23:59 UTC");
    }
}
