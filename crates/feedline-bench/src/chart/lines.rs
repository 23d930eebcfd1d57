//! Quantities along an axis.

use super::canvas::{Anchor, Canvas};
use super::scale::{AxisKind, Ruler, Scale};

/// Lines over a common axis.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The horizontal axis.
    pub x: Ruler,
    /// The vertical axis.
    pub y: Ruler,
    /// The lines.
    pub series: Vec<Series>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour, by number.
    pub colour: usize,
    /// How it is drawn.
    pub stroke: Stroke,
    /// Its points.
    pub points: Vec<(f64, f64)>,
    /// Low and high at each point, where there is a spread.
    pub spread: Vec<(f64, f64)>,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// Measured: solid, with a dot at each point.
    Measured,
    /// Measured closely: solid, without dots.
    Solid,
    /// A fitted curve: dashed.
    Fitted,
    /// A second fitted curve: dotted.
    Dotted,
    /// What would be ideal: grey and dashed.
    Ideal,
}

impl Series {
    /// A measured line.
    pub fn measured(name: impl Into<String>, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), colour, stroke: Stroke::Measured, points, spread: Vec::new() }
    }

    /// The same, drawn in another way.
    pub fn stroke(mut self, stroke: Stroke) -> Self {
        self.stroke = stroke;
        self
    }

    /// The same with low and high at each point.
    pub fn spread(mut self, spread: Vec<(f64, f64)>) -> Self {
        self.spread = spread;
        self
    }

    /// What has a place: a figure that is no number has none.
    fn drawable(&self) -> Self {
        let mut it = self.clone();
        let has_place = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
        let kept: Vec<bool> = it.points.iter().map(has_place).collect();
        let mut keeps = kept.iter();
        it.points.retain(|_| *keeps.next().unwrap_or(&false));
        let mut keeps = kept.iter();
        it.spread.retain(|_| *keeps.next().unwrap_or(&false));
        it
    }

    fn class(&self) -> String {
        let colour = self.colour % 8;
        match self.stroke {
            Stroke::Measured | Stroke::Solid => format!("l s{colour}"),
            Stroke::Fitted => format!("l thin dash s{colour}"),
            Stroke::Dotted => format!("l thin dots s{colour}"),
            Stroke::Ideal => "l thin dash ideal".into(),
        }
    }
}

impl Lines {
    pub(super) fn draw(&self, canvas: &mut Canvas) {
        let entries: Vec<(String, String)> =
            self.series.iter().map(|it| (it.class(), it.name.clone())).collect();
        let legend_left = if canvas.is_narrow() { 8.0 } else { 16.0 };
        let top = canvas.legend(&entries, legend_left) + 8.0;
        let (right, bottom) = (canvas.width - 14.0, canvas.height - 42.0);
        let ys = self.series.iter().flat_map(|it| {
            // What would be ideal may leave the picture: it must not squeeze what was measured.
            let of_points =
                it.points.iter().map(|(_, y)| *y).filter(|_| it.stroke != Stroke::Ideal);
            of_points.chain(it.spread.iter().map(|(_, high)| *high))
        });
        let ys: Vec<f64> = ys.collect();
        let room = if canvas.is_narrow() { 4 } else { 5 };
        let y = Scale::new(&self.y, ys.into_iter(), (bottom, top), room);
        let widest = y.ticks.iter().map(|(_, text)| canvas.text_width(text)).fold(0.0, f64::max);
        let left = 30.0 + widest * 0.95;
        let xs = self.series.iter().flat_map(|it| it.points.iter().map(|(x, _)| *x));
        let room = ((right - left) / 46.0) as usize;
        let inset = if self.x.kind == AxisKind::Steps { 12.0 } else { 0.0 };
        let x = Scale::new(&self.x, xs, (left + inset, right - inset), room);
        for (value, text) in &y.ticks {
            let at = y.place(*value);
            canvas.line("gr", (left, at), (right, at));
            canvas.text("n", (left - 7.0, at + 4.0), Anchor::End, text);
        }
        for (value, text) in &x.ticks {
            let at = x.place(*value);
            canvas.line("ax", (at, bottom), (at, bottom + 4.0));
            canvas.text("n", (at, bottom + 17.0), Anchor::Middle, text);
        }
        canvas.line("ax", (left, bottom), (right, bottom));
        canvas.text(
            "t",
            ((left + right) / 2.0, canvas.height - 8.0),
            Anchor::Middle,
            &self.x.label,
        );
        canvas.upright("t", (14.0, (top + bottom) / 2.0), &self.y.label);
        for series in self.series.iter().map(Series::drawable) {
            let place = |(vx, vy): &(f64, f64)| (x.place(*vx), y.place(*vy));
            if !series.spread.is_empty() {
                let edge = |of: fn(&(f64, f64)) -> f64| -> Vec<(f64, f64)> {
                    let pairs = series.points.iter().zip(&series.spread);
                    pairs.map(|((vx, _), spread)| (x.place(*vx), y.place(of(spread)))).collect()
                };
                let class = format!("band f{}", series.colour % 8);
                canvas.area(&class, &edge(|it| it.1), &edge(|it| it.0));
            }
            let mut points: Vec<(f64, f64)> = series.points.iter().map(place).collect();
            if series.stroke == Stroke::Ideal {
                clip_above(&mut points, top);
            }
            canvas.polyline(&series.class(), &points);
            if series.stroke == Stroke::Measured {
                let class = format!("o f{}", series.colour % 8);
                for (at, (vx, vy)) in points.iter().zip(&series.points) {
                    let (vx, vy) = (self.x.unit.text(*vx), self.y.unit.text(*vy));
                    let tip = format!("{}: {vy} at {} {vx}", series.name, self.x.label);
                    canvas.dot(&class, *at, 4.2, &tip);
                }
            }
        }
    }
}

/// Ends a rising line where it would leave the picture.
fn clip_above(points: &mut Vec<(f64, f64)>, top: f64) {
    let Some(out) = points.iter().position(|(_, y)| *y < top) else { return };
    if out == 0 {
        points.clear();
        return;
    }
    let ((x1, y1), (x2, y2)) = (points[out - 1], points[out]);
    let share = (y1 - top) / (y1 - y2);
    points.truncate(out);
    points.push((x1 + share * (x2 - x1), top));
}
