//! Axes: from values to places, and the ticks between.

use crate::experiment::Unit;
use crate::units;

/// How an axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisKind {
    /// Evenly, from zero if that is near.
    Linear,
    /// By powers: the same step for the same factor.
    Log,
    /// One step for each value that occurs.
    Steps,
}

/// An axis: how it runs, its label and how values are written.
#[derive(Clone, Debug)]
pub struct Ruler {
    /// How it runs.
    pub kind: AxisKind,
    /// What it shows.
    pub label: String,
    /// How values are written.
    pub unit: Unit,
}

impl Ruler {
    /// An axis.
    pub fn new(kind: AxisKind, label: impl Into<String>, unit: Unit) -> Self {
        Self { kind, label: label.into(), unit }
    }
}

/// An axis laid out over a stretch of pixels.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    kind: AxisKind,
    steps: Vec<f64>,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// Lays an axis out so that all values have a place between the pixels `from` and `to`.
    pub(super) fn new(
        ruler: &Ruler,
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
        room: usize,
    ) -> Self {
        let mut values: Vec<f64> = values.filter(|it| it.is_finite()).collect();
        if ruler.kind == AxisKind::Log {
            values.retain(|it| *it > 0.0);
        }
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (low, high) = match (values.first(), values.last()) {
            (Some(low), Some(high)) => (*low, *high),
            _ => (0.0, 1.0),
        };
        let mut scale =
            Self { kind: ruler.kind, steps: Vec::new(), low, high, from, to, ticks: Vec::new() };
        match ruler.kind {
            AxisKind::Linear => scale.lay_linear(ruler.unit, room),
            AxisKind::Log => scale.lay_log(ruler.unit, room),
            AxisKind::Steps => {
                let thin = values.len().div_ceil(room.max(1));
                let shown = values.iter().step_by(thin.max(1));
                scale.ticks = shown.map(|it| (*it, units::short(*it, ruler.unit))).collect();
                scale.steps = values;
            }
        }
        scale
    }

    fn lay_linear(&mut self, unit: Unit, room: usize) {
        if self.low > 0.0 && self.low < 0.6 * self.high {
            self.low = 0.0;
        }
        if self.high <= self.low {
            self.high = self.low + self.low.abs().max(1.0);
        }
        let step = nice_step((self.high - self.low) / room.max(1) as f64, unit);
        self.low = (self.low / step).floor() * step;
        self.high = (self.high / step - 1e-9).ceil() * step;
        let count = ((self.high - self.low) / step).round() as usize;
        self.ticks = (0..=count)
            .map(|i| self.low + step * i as f64)
            .map(|value| (value, units::short(value, unit)))
            .collect();
    }

    fn lay_log(&mut self, unit: Unit, room: usize) {
        if self.low <= 0.0 {
            (self.low, self.high) = (1.0, 10.0);
        }
        let base: f64 = if matches!(unit, Unit::Bytes) { 4.0 } else { 10.0 };
        let first = (self.low.ln() / base.ln() + 1e-9).floor() as i32;
        let last = ((self.high.ln() / base.ln() - 1e-9).ceil() as i32).max(first + 1);
        self.low = base.powi(first);
        self.high = base.powi(last);
        let stride = ((last - first) as usize).div_ceil(room.max(1)).max(1);
        self.ticks = (first..=last)
            .step_by(stride)
            .map(|power| base.powi(power))
            .map(|value| (value, units::short(value, unit)))
            .collect();
    }

    /// The pixel of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.kind {
            AxisKind::Linear => (value - self.low) / (self.high - self.low),
            AxisKind::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            AxisKind::Steps => self.step_share(value),
        };
        self.from + share.clamp(-0.02, 1.02) * (self.to - self.from)
    }

    /// Values between two steps lie between their places.
    fn step_share(&self, value: f64) -> f64 {
        let last = self.steps.len().saturating_sub(1).max(1) as f64;
        if self.steps.len() < 2 {
            return 0.5;
        }
        let above = self.steps.partition_point(|step| *step < value).clamp(1, self.steps.len() - 1);
        let (a, b) = (self.steps[above - 1], self.steps[above]);
        ((above - 1) as f64 + (value - a) / (b - a)) / last
    }
}

/// The smallest of 1, 2, 5, 10 … that is at least `step`; of 1, 2, 4, 8 … for binary units.
fn nice_step(step: f64, unit: Unit) -> f64 {
    if !step.is_finite() || step <= 0.0 {
        return 1.0;
    }
    if matches!(unit, Unit::Bytes | Unit::BytesPerSecond) && step > 1.0 {
        return 2f64.powf(step.log2().ceil());
    }
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|it| it * power)
        .into_iter()
        .find(|it| *it >= step * 0.999)
        .unwrap_or(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(kind: AxisKind, values: &[f64]) -> Scale {
        let ruler = Ruler::new(kind, "x", Unit::Plain);
        Scale::new(&ruler, values.iter().copied(), (0.0, 100.0), 5)
    }

    #[test]
    fn linear_axes_begin_at_zero_if_that_is_near_and_have_round_ticks() {
        let it = scale(AxisKind::Linear, &[88.0, 331.0]);
        let ticks: Vec<&str> = it.ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(ticks, ["0", "100", "200", "300", "400"]);
        assert_eq!(it.place(200.0), 50.0);
        assert_eq!(scale(AxisKind::Linear, &[90.0, 100.0]).ticks[0].1, "90");
    }

    #[test]
    fn odd_values_are_no_trouble() {
        for values in [&[][..], &[0.0], &[5.0], &[f64::NAN, 1.0], &[-3.0, 4.0], &[0.0, 0.0]] {
            for kind in [AxisKind::Linear, AxisKind::Log, AxisKind::Steps] {
                let it = scale(kind, values);
                assert!(it.place(1.0).is_finite(), "{kind:?} {values:?}");
                assert!(it.ticks.len() < 20);
            }
        }
    }

    #[test]
    fn steps_are_evenly_spaced_and_interpolated() {
        let it = scale(AxisKind::Steps, &[1.0, 2.0, 8.0]);
        assert_eq!([1.0, 2.0, 5.0, 8.0].map(|v| it.place(v)), [0.0, 50.0, 75.0, 100.0]);
    }
}
