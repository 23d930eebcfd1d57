//! The SVG that charts write to.

use std::fmt::Write as _;

use super::ChartForm;

/// Colours of the series, light then dark. The first is feedline's.
const SERIES: [(&str, &str); 8] = [
    ("#2563eb", "#6ea8ff"),
    ("#e2570b", "#ff9d5c"),
    ("#0f8a7e", "#3fd0c0"),
    ("#7c3aed", "#b79cff"),
    ("#c2267a", "#ff86c0"),
    ("#5b8c0a", "#a8d94e"),
    ("#8a6d1b", "#e0c060"),
    ("#5f6b7a", "#9fb0c3"),
];

/// How far a letter of a label reaches, as a share of the font's size; wide enough for most.
const LETTER: f64 = 0.56;

/// A drawing under way. Coordinates are pixels of the view box.
#[derive(Debug)]
pub(super) struct Canvas {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Where the chart may begin, below a headline.
    pub(super) top: f64,
    form: ChartForm,
    body: String,
}

/// Which side of its place a text stands on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub(super) fn new(form: ChartForm) -> Self {
        let (width, height) = match form {
            ChartForm::Wide => (560.0, 340.0),
            ChartForm::Narrow => (350.0, 300.0),
            ChartForm::File | ChartForm::Picture => (720.0, 440.0),
        };
        Self { width, height, top: 8.0, form, body: String::new() }
    }

    pub(super) fn font_size(&self) -> f64 {
        12.0
    }

    pub(super) fn is_narrow(&self) -> bool {
        self.form == ChartForm::Narrow
    }

    /// The width that a text takes, about.
    pub(super) fn text_width(&self, text: &str) -> f64 {
        text.chars().count() as f64 * self.font_size() * LETTER
    }

    /// The heading of a chart that stands alone.
    pub(super) fn headline(&mut self, text: &str) {
        let (x, y) = (16.0, 28.0);
        let _ = writeln!(self.body, r#"<text class="h" x="{x}" y="{y}">{}</text>"#, escaped(text));
        self.top = 44.0;
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let _ = write!(self.body, r#"<path class="{class}" d=""#);
        for (place, (x, y)) in points.iter().enumerate() {
            let _ = write!(self.body, "{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' });
        }
        let _ = writeln!(self.body, r#""/>"#);
    }

    pub(super) fn area(&mut self, class: &str, upper: &[(f64, f64)], lower: &[(f64, f64)]) {
        let _ = write!(self.body, r#"<path class="{class}" d=""#);
        for (place, (x, y)) in upper.iter().chain(lower.iter().rev()).enumerate() {
            let _ = write!(self.body, "{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' });
        }
        let _ = writeln!(self.body, r#"Z"/>"#);
    }

    /// A rectangle with a tip that shows on hovering.
    pub(super) fn rect(
        &mut self,
        class: &str,
        (x, y, w, h): (f64, f64, f64, f64),
        extra: &str,
        tip: &str,
    ) {
        let (w, h) = (w.max(0.0), h.max(0.0));
        let head = format!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"{extra}"#
        );
        let _ = match tip {
            "" => writeln!(self.body, "{head}/>"),
            tip => writeln!(self.body, "{head}><title>{}</title></rect>", escaped(tip)),
        };
    }

    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, tip: &str) {
        let _ = writeln!(
            self.body,
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius}"><title>{}</title></circle>"#,
            escaped(tip)
        );
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}"{anchor}>{}</text>"#,
            escaped(text)
        );
    }

    /// A text that reads upwards, for a vertical axis.
    pub(super) fn upright(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" transform="translate({x:.1} {y:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            escaped(text)
        );
    }

    /// Entries side by side, in as many rows as they need; returns where the chart may begin below them.
    pub(super) fn legend(&mut self, entries: &[(String, String)], left: f64) -> f64 {
        let (mut x, mut y) = (left, self.top + 10.0);
        for (class, name) in entries {
            let width = 26.0 + self.text_width(name) + 14.0;
            if x > left && x + width > self.width - 4.0 {
                x = left;
                y += 18.0;
            }
            self.line(class, (x, y - 4.0), (x + 20.0, y - 4.0));
            self.text("t", (x + 26.0, y), Anchor::Start, name);
            x += width;
        }
        if entries.is_empty() { self.top } else { y + 10.0 }
    }

    /// The whole document.
    pub(super) fn finish(self, title: &str, caption: &str) -> String {
        let (width, height) = (self.width, self.height);
        let (title, caption) = (escaped(title), escaped(caption));
        let style = match self.form {
            ChartForm::Wide | ChartForm::Narrow => String::new(),
            ChartForm::File => format!(
                "<style>{}{}@media (prefers-color-scheme: dark){{{}}}</style>\n",
                STYLE.replace('\n', ""),
                colours(false),
                colours(true)
            ),
            ChartForm::Picture => {
                format!("<style>{}{}</style>\n", STYLE.replace('\n', ""), colours(false))
            }
        };
        let size = match self.form {
            ChartForm::Wide | ChartForm::Narrow => String::new(),
            ChartForm::File | ChartForm::Picture => {
                format!(r#" width="{width}" height="{height}""#)
            }
        };
        let ground = match self.form {
            ChartForm::Wide | ChartForm::Narrow => String::new(),
            _ => format!("<rect class=\"bg\" width=\"{width}\" height=\"{height}\"/>\n"),
        };
        let class = match self.form {
            ChartForm::Wide => " class=\"chart wide\"",
            ChartForm::Narrow => " class=\"chart narrow\"",
            _ => "",
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\"{class} viewBox=\"0 0 {width} {height}\"{size} role=\"img\" \
             aria-label=\"{title}: {caption}\" font-family=\"'DejaVu Sans', system-ui, sans-serif\" font-size=\"12\">\n\
             {style}{ground}{}</svg>\n",
            self.body
        )
    }
}

/// What does not depend on light or dark.
pub(crate) const STYLE: &str = "\
.t{font-size:12px}
.n{font-size:11px}
.b{font-size:12px;font-weight:600}
.h{font-size:17px;font-weight:700}
.gr{stroke-width:1}
.ax{stroke-width:1}
.l{fill:none;stroke-width:2.4;stroke-linejoin:round;stroke-linecap:round}
.thin{stroke-width:1.4}
.dash{stroke-dasharray:7 5}
.dots{stroke-dasharray:2 4}
.band{fill-opacity:.14}
.o{stroke-width:1.5}
";

/// The colours, as plain rules for a file of its own.
fn colours(dark: bool) -> String {
    let (ground, ink, soft, grid) = if dark {
        ("#14181f", "#e8ecf2", "#9aa7b8", "#2a323e")
    } else {
        ("#ffffff", "#1b2430", "#5a6675", "#e3e8ee")
    };
    rules(ground, ink, soft, grid, |place| {
        let (light, night) = SERIES[place];
        if dark { night.into() } else { light.into() }
    })
}

/// The colours, as rules on variables that the page sets.
pub(crate) fn page_rules() -> String {
    rules("var(--card)", "var(--ink)", "var(--soft)", "var(--grid)", |place| {
        format!("var(--s{place})")
    })
}

/// The variables of the series, for the page.
pub(crate) fn page_variables(dark: bool) -> String {
    let pick = |(light, night): (&'static str, &'static str)| if dark { night } else { light };
    SERIES.iter().enumerate().map(|(place, pair)| format!("--s{place}:{};", pick(*pair))).collect()
}

fn rules(
    ground: &str,
    ink: &str,
    soft: &str,
    grid: &str,
    series: impl Fn(usize) -> String,
) -> String {
    let mut text = format!(
        ".bg{{fill:{ground}}}.t,.b,.h{{fill:{ink}}}.n{{fill:{soft}}}.gr{{stroke:{grid}}}\
         .ax{{stroke:{soft}}}.o{{stroke:{ground}}}.hot{{fill:{ground}}}.cool{{fill:{ink}}}\
         .none{{fill:{grid}}}.ideal{{stroke:{soft}}}"
    );
    for place in 0..SERIES.len() {
        let colour = series(place);
        let _ = write!(text, ".s{place}{{stroke:{colour}}}.f{place}{{fill:{colour}}}");
    }
    text
}

/// Text that cannot break out of its element or attribute.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}
