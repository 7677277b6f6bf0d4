//! `place(v) = start + (v - low) / (high - low) * length`, and ticks at 1, 2 or 5 times a power of ten. A
//! logarithmic axis takes log10 v for v.

/// An axis.
pub struct Axis {
    log: bool,
    low: f64,
    high: f64,
    step: f64,
    start: f64,
    length: f64,
}

impl Axis {
    /// An axis over `values`, from `start` in the picture over `length` (which may be negative), with
    /// about `ticks` ticks. Values that are not finite are ignored.
    pub fn over(values: impl Iterator<Item = f64>, start: f64, length: f64, ticks: f64) -> Axis {
        let mut range = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| v.is_finite()) {
            range = (range.0.min(value), range.1.max(value));
        }
        let (mut low, mut high) = if range.0 <= range.1 { range } else { (0.0, 1.0) };
        if low == high {
            (low, high) = (low - 0.5, high + 0.5);
        }
        Axis { log: false, low, high, step: round_step((high - low) / ticks), start, length }
    }

    /// The same without ticks between integers, for counts such as epochs and delays.
    pub fn of_integers(mut self) -> Axis {
        self.step = self.step.max(1.0);
        self
    }

    /// The same, extended up to the next tick.
    pub fn up_to_a_tick(mut self) -> Axis {
        self.high = (self.high / self.step - 1e-9).ceil() * self.step;
        self
    }

    /// The same, also extended down to the previous tick.
    pub fn out_to_ticks(mut self) -> Axis {
        self.low = (self.low / self.step + 1e-9).floor() * self.step;
        self.up_to_a_tick()
    }

    /// A logarithmic axis over the positive `values`, from tick to tick. Over many powers of ten, only
    /// some of them have ticks.
    pub fn log(values: impl Iterator<Item = f64>, start: f64, length: f64) -> Axis {
        let logs = values.filter(|&v| v > 0.0).map(f64::log10);
        let mut axis = Axis { log: true, ..Axis::over(logs, start, length, 8.0) };
        axis.step = axis.step.max(1.0);
        let below = |log: f64| axis.log_ticks(log - 1.0, log + 1e-9).pop().map(|(log, ..)| log);
        let above = |log: f64| axis.log_ticks(log - 1e-9, log + 1.0).first().map(|(log, ..)| *log);
        if let (1.0, Some(low), Some(high)) = (axis.step, below(axis.low), above(axis.high)) {
            (axis.low, axis.high) = (low, high);
        } else {
            axis = axis.out_to_ticks();
        }
        axis
    }

    /// Ticks between two powers of ten: logarithm, factor, exponent.
    fn log_ticks(&self, low: f64, high: f64) -> Vec<(f64, i32, i32)> {
        let factors: &[i32] = if self.high - self.low <= 3.0 { &[1, 2, 5] } else { &[1] };
        let mut ticks = Vec::new();
        for exponent in
            (low.floor() as i32..=high.ceil() as i32).filter(|e| e % self.step as i32 == 0)
        {
            ticks.extend(
                factors.iter().map(|&f| (f64::from(exponent) + f64::from(f).log10(), f, exponent)),
            );
        }
        ticks.retain(|(log, ..)| (low - 1e-9..=high + 1e-9).contains(log));
        ticks
    }

    /// The position of a value in the picture.
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.log { value.log10() } else { value };
        self.start + (value - self.low) / (self.high - self.low) * self.length
    }

    /// Values and labels of the ticks.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        if self.log {
            let label = |factor: i32, exponent: i32| match exponent {
                -3..=3 => {
                    let decimals = (-exponent).max(0) as usize;
                    format!("{:.decimals$}", f64::from(factor) * 10f64.powi(exponent))
                }
                _ => format!("{factor}e{exponent}").replace('-', "\u{2212}"),
            };
            let ticks = self.log_ticks(self.low, self.high).into_iter();
            return ticks.map(|(log, f, e)| (10f64.powf(log), label(f, e))).collect();
        }
        let slack = 1e-9;
        let first = (self.low / self.step - slack).ceil() as i64;
        let last = (self.high / self.step + slack).floor() as i64;
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        let tick = |i| {
            let value = i as f64 * self.step;
            (value, format!("{value:.decimals$}").replace('-', "\u{2212}"))
        };
        (first..=last).map(tick).collect()
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let fits = |&factor: &f64| factor * power >= step * (1.0 - 1e-9);
    [1.0, 2.0, 5.0, 10.0].into_iter().find(fits).unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64) -> Vec<String> {
        let axis = Axis::over([low, high].into_iter(), 0.0, 1.0, 8.0);
        axis.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_stand_at_round_numbers() {
        assert_eq!(labels(-8.0, 8.0).join(" "), "−8 −6 −4 −2 0 2 4 6 8");
        assert_eq!(labels(0.0, 1.0).join(" "), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(labels(0.61, 0.68).join(" "), "0.61 0.62 0.63 0.64 0.65 0.66 0.67 0.68");
        assert_eq!(labels(0.0, 999.0).join(" "), "0 200 400 600 800");
        assert_eq!(labels(3.0, 3.0).join(" "), "2.6 2.8 3.0 3.2 3.4");
        let nothing = Axis::over([f64::NAN].into_iter(), 0.0, 1.0, 2.0);
        assert_eq!(nothing.ticks().len(), 3);
    }

    #[test]
    fn counts_have_no_ticks_between_integers() {
        for (low, high, expected) in
            [(1.0, 3.0, "1 2 3"), (0.0, 1.0, "0 1"), (3.0, 3.0, "3"), (0.0, 19.0, "0 5 10 15")]
        {
            let axis = Axis::over([low, high].into_iter(), 0.0, 1.0, 6.0).of_integers();
            let labels: Vec<_> = axis.ticks().into_iter().map(|(_, label)| label).collect();
            assert_eq!(labels.join(" "), expected);
        }
    }

    #[test]
    fn logarithmic_ticks() {
        let labels = |values: &[f64]| {
            let axis = Axis::log(values.iter().copied(), 0.0, 1.0);
            axis.ticks().into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(&[0.03, 1.4, 0.0, -1.0, f64::NAN]), "0.02 0.05 0.1 0.2 0.5 1 2");
        assert_eq!(labels(&[1.0, 1.0]), "0.2 0.5 1 2 5");
        assert_eq!(labels(&[1e-6, 0.9]), "1e\u{2212}6 1e\u{2212}5 1e\u{2212}4 0.001 0.01 0.1 1");
        assert!(labels(&[1e-300, 1e300]).len() < 100);
        assert!(!labels(&[]).is_empty());
        let axis = Axis::log([0.01, 100.0].into_iter(), 0.0, 4.0);
        assert!((axis.place(1.0) - 2.0).abs() < 1e-12 && axis.place(f64::NAN).is_nan());
    }

    #[test]
    fn values_have_places() {
        let axis = Axis::over([0.0, 14.0].into_iter(), 100.0, -80.0, 7.0);
        assert_eq!((axis.place(0.0), axis.place(7.0), axis.place(14.0)), (100.0, 60.0, 20.0));
        let axis = Axis::over([0.0, 13.0].into_iter(), 0.0, 10.0, 7.0).up_to_a_tick();
        assert_eq!(axis.place(14.0), 10.0);
        let axis = Axis::over([0.63, 0.99].into_iter(), 0.0, 1.0, 8.0).out_to_ticks();
        assert!(axis.place(0.6).abs() < 1e-12 && (axis.place(1.0) - 1.0).abs() < 1e-12);
    }
}
