//! Charts as SVG: the same drawing for the page (themed by its style sheet), for files of its own, and,
//! through `resvg`, for PNG.
//!
//! | file | what it draws |
//! | --- | --- |
//! | `lines.rs` | quantities along an axis, with spread and fitted curves |
//! | `heat.rs` | a quantity over two axes |
//! | `bars.rs` | a quantity by name |
//! | `timeline.rs` | who worked on which sample when |
//!
//! Why by hand: the charts of a page follow its light or dark colours, name themselves to screen readers
//! and come in a wide and a narrow form; plotting crates write colours and pixels only.

mod bars;
mod canvas;
mod heat;
mod lines;
#[cfg(feature = "png")]
mod png;
mod scale;
mod timeline;

pub use bars::{Bar, Bars};
pub use heat::{Heat, HeatCell};
pub use lines::{Lines, Series, Stroke};
#[cfg(feature = "png")]
pub use png::PngError;
pub use scale::{AxisKind, Ruler};
pub use timeline::Timeline;

pub use canvas::escaped;
pub(crate) use canvas::{STYLE, page_rules, page_variables};

use canvas::Canvas;

/// A chart with its words.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Its heading, and its accessible name.
    pub title: String,
    /// What to see in it, below it; also its accessible description.
    pub caption: String,
    /// Where several charts share a heading, which of them this is: the page shows one at a time.
    pub choice: Option<String>,
    /// Whether it is the one shown first among several.
    pub is_first: bool,
    /// What is drawn.
    pub drawing: Drawing,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub enum Drawing {
    /// Quantities along an axis.
    Lines(Lines),
    /// A quantity over two axes.
    Heat(Heat),
    /// A quantity by name.
    Bars(Bars),
    /// Stretches of work over time.
    Timeline(Timeline),
}

/// For which place a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartForm {
    /// The page of a desktop; title and colours are the page's.
    Wide,
    /// The page of a phone; title and colours are the page's.
    Narrow,
    /// A file of its own, light or dark as the reader's system is.
    File,
    /// A light picture.
    Picture,
}

impl Chart {
    /// A chart without a choice.
    pub fn new(title: impl Into<String>, caption: impl Into<String>, drawing: Drawing) -> Self {
        Self {
            title: title.into(),
            caption: caption.into(),
            choice: None,
            is_first: false,
            drawing,
        }
    }

    /// The same as one of several under its heading.
    pub fn choice(mut self, name: impl Into<String>) -> Self {
        self.choice = Some(name.into());
        self
    }

    /// The same as the one that is shown first.
    pub fn first(mut self, is_first: bool) -> Self {
        self.is_first = is_first;
        self
    }

    /// Its name for a file: the title (and choice) in small letters.
    pub fn slug(&self) -> String {
        let words = format!("{} {}", self.title, self.choice.as_deref().unwrap_or_default());
        let kept = words
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' })
            .collect::<String>();
        kept.split_whitespace().take(20).collect::<Vec<_>>().join("-")
    }

    /// The chart as SVG.
    pub fn svg(&self, form: ChartForm) -> String {
        let mut canvas = Canvas::new(form);
        if matches!(form, ChartForm::File | ChartForm::Picture) {
            let choice = self.choice.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
            canvas.headline(&format!("{}{choice}", self.title));
        }
        match &self.drawing {
            Drawing::Lines(lines) => lines.draw(&mut canvas),
            Drawing::Heat(heat) => heat.draw(&mut canvas),
            Drawing::Bars(bars) => bars.draw(&mut canvas),
            Drawing::Timeline(timeline) => timeline.draw(&mut canvas),
        }
        canvas.finish(&self.title, &self.caption)
    }

    /// The chart as PNG, light, at twice its size.
    #[cfg(feature = "png")]
    pub fn png(&self) -> Result<Vec<u8>, PngError> {
        png::render(&self.svg(ChartForm::Picture))
    }
}

#[cfg(all(test, feature = "png"))]
#[path = "chart_test.rs"]
mod tests;
