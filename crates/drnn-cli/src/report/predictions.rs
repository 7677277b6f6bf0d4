//! Predictions of a series model against the truth: over time, against each other, by horizon.

use super::page::{Figure, number};
use crate::plot::{Line, Plot, Scale, Style};
use serde::{Deserialize, Serialize};

/// One target of a part of the data. The steps of `truth` and `predicted` follow one another; NaN is
/// null in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// The name of the target.
    pub target: String,
    /// Which part: `test`.
    pub set: String,
    /// The number of the first step, from 0.
    pub first: usize,
    #[serde(deserialize_with = "numbers_or_null")]
    pub truth: Vec<f64>,
    #[serde(deserialize_with = "numbers_or_null")]
    pub predicted: Vec<f64>,
    /// Some pairs of truth and prediction out of the whole part.
    pub pairs: Vec<[f64; 2]>,
}

/// Errors of a target by how far ahead it is predicted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Horizons {
    /// The name of the table's column.
    pub target: String,
    pub set: String,
    pub ahead: Vec<usize>,
    /// Of the network, then of each baseline on the same rows.
    pub errors: Vec<HorizonErrors>,
}

/// The errors of one predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HorizonErrors {
    pub name: String,
    /// RMSE at each horizon; NaN is null in the file.
    #[serde(deserialize_with = "numbers_or_null")]
    pub rmse: Vec<f64>,
}

/// JSON has null for NaN.
fn numbers_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Option<f64>>::deserialize(from)?;
    Ok(values.into_iter().map(|x| x.unwrap_or(f64::NAN)).collect())
}

/// Maximum targets with pictures.
pub const MAX_PICTURED: usize = 4;
/// Names of files, for each of them.
const OVER_TIME: [&str; MAX_PICTURED] =
    ["predictions", "predictions-2", "predictions-3", "predictions-4"];
const AGAINST: [&str; MAX_PICTURED] = ["scatter", "scatter-2", "scatter-3", "scatter-4"];
const BY_HORIZON: [&str; MAX_PICTURED] = ["horizons", "horizons-2", "horizons-3", "horizons-4"];

/// The file of a picture of a training.
pub fn svg_name(figure: &str) -> &'static str {
    match figure {
        "predictions" => "predictions.svg",
        "predictions-2" => "predictions-2.svg",
        "predictions-3" => "predictions-3.svg",
        "predictions-4" => "predictions-4.svg",
        "scatter" => "scatter.svg",
        "scatter-2" => "scatter-2.svg",
        "scatter-3" => "scatter-3.svg",
        "scatter-4" => "scatter-4.svg",
        "horizons" => "horizons.svg",
        "horizons-2" => "horizons-2.svg",
        "horizons-3" => "horizons-3.svg",
        "horizons-4" => "horizons-4.svg",
        _ => "confusion.svg",
    }
}

fn line(name: &str, style: Style, colour: usize, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.into(), style, colour, strength: 1.0, points, bars: Vec::new() }
}

impl Stretch {
    /// Whether lengths fit.
    pub fn check(&self) -> Result<(), String> {
        match self.truth.len() == self.predicted.len() {
            true => Ok(()),
            false => Err(format!("{} predictions of {}", self.predicted.len(), self.truth.len())),
        }
    }

    /// Over time, and against the truth; `at` counts the targets.
    pub fn figures(&self, at: usize) -> Vec<Figure> {
        let Stretch { target, set, first, truth, predicted, .. } = self;
        if at >= MAX_PICTURED {
            return Vec::new();
        }
        let steps = |values: &[f64]| {
            values.iter().enumerate().map(|(i, y)| ((first + i) as f64, *y)).collect()
        };
        let over_time = Plot {
            title: format!("{target}: predicted and true"),
            x: "step".into(),
            y: target.clone(),
            scale: Scale::Around,
            guide: None,
            lines: vec![
                line("predicted", Style::Bare, 0, steps(predicted)),
                line("true", Style::Bare, 1, steps(truth)),
            ],
        };
        let count = truth.len();
        let mut figures = vec![Figure {
            name: OVER_TIME[at],
            picture: Box::new(over_time),
            caption: format!("{count} steps of the {set} set, from step {first} on."),
        }];
        let values = || self.pairs.iter().flatten().filter(|x| x.is_finite());
        let low = values().fold(f64::INFINITY, |a, b| a.min(*b));
        let high = values().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        if low < high {
            let pairs = self.pairs.iter().map(|[truth, predicted]| (*truth, *predicted)).collect();
            let against = Plot {
                title: format!("{target}: predicted against true"),
                x: format!("true {target}"),
                y: format!("predicted {target}"),
                scale: Scale::Around,
                guide: None,
                lines: vec![
                    line("steps", Style::Dots, 0, pairs),
                    line("predicted = true", Style::Dotted, 1, vec![(low, low), (high, high)]),
                ],
            };
            let (count, residuals) = (self.pairs.len(), self.residuals());
            let caption = format!(
                "{count} steps from all of the {set} set. Residual (predicted less true): {residuals}."
            );
            figures.push(Figure { name: AGAINST[at], picture: Box::new(against), caption });
        }
        figures
    }

    /// Mean and quantiles of the residuals of the pairs.
    fn residuals(&self) -> String {
        let mut all: Vec<f64> = self.pairs.iter().map(|[truth, y]| y - truth).collect();
        all.retain(|x| x.is_finite());
        all.sort_by(f64::total_cmp);
        let quantile = |q: f64| number(all[((all.len() - 1) as f64 * q).round() as usize]);
        match all.is_empty() {
            true => "none".into(),
            false => format!(
                "mean {}, median {}, from {} to {} in nine of ten steps",
                number(all.iter().sum::<f64>() / all.len() as f64),
                quantile(0.5),
                quantile(0.05),
                quantile(0.95)
            ),
        }
    }
}

impl Horizons {
    /// Whether lengths fit.
    pub fn check(&self) -> Result<(), String> {
        let horizons = self.ahead.len();
        match self.errors.iter().find(|errors| errors.rmse.len() != horizons) {
            None => Ok(()),
            Some(errors) => Err(format!("{} errors of {horizons} horizons", errors.rmse.len())),
        }
    }

    pub fn figure(&self, at: usize) -> Option<Figure> {
        let line = |(colour, errors): (usize, &HorizonErrors)| {
            let points = self.ahead.iter().zip(&errors.rmse);
            let points = points.filter(|(_, error)| error.is_finite());
            let points = points.map(|(ahead, error)| (*ahead as f64, *error)).collect();
            let style = if colour == 0 { Style::Solid } else { Style::Dotted };
            line(&errors.name, style, colour, points)
        };
        let plot = Plot {
            title: format!("{}: error by horizon", self.target),
            x: "steps ahead".into(),
            y: format!("RMSE of {}", self.target),
            scale: Scale::FromZero,
            guide: None,
            lines: self.errors.iter().enumerate().map(line).collect(),
        };
        let caption = format!(
            "Root of the mean squared error on the {} set, by how many steps ahead is predicted.",
            self.set
        );
        Some(Figure { name: BY_HORIZON.get(at)?, picture: Box::new(plot), caption })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_a_target_and_no_more_than_four() {
        let stretch = Stretch {
            target: "y".into(),
            set: "test".into(),
            first: 70,
            truth: vec![1.0, f64::NAN, 3.0],
            predicted: vec![1.5, 2.0, 2.5],
            pairs: vec![[1.0, 1.5], [3.0, 2.5]],
        };
        let figures = stretch.figures(0);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        assert_eq!(names, ["predictions", "scatter"]);
        assert!(figures[0].caption.contains("3 steps of the test set, from step 70 on"));
        assert!(figures[1].caption.contains("mean 0, median"), "{}", figures[1].caption);
        assert!(figures.iter().all(|figure| !figure.picture.svg().contains("NaN")));
        assert!(stretch.figures(4).is_empty());
        let text = serde_json::to_string(&stretch).unwrap();
        let again: Stretch = serde_json::from_str(&text).unwrap();
        assert!(again.truth[1].is_nan() && again.check().is_ok());
        let short = Stretch { predicted: vec![1.0], ..stretch };
        assert!(short.check().is_err());
    }

    #[test]
    fn a_line_for_each_predictor_by_horizon() {
        let errors =
            |name: &str, rmse: [f64; 3]| HorizonErrors { name: name.into(), rmse: rmse.to_vec() };
        let horizons = Horizons {
            target: "y".into(),
            set: "test".into(),
            ahead: vec![1, 6, 24],
            errors: vec![
                errors("network", [0.1, 0.2, 0.3]),
                errors("persistence", [0.1, 0.5, f64::NAN]),
            ],
        };
        let figure = horizons.figure(0).unwrap();
        let svg = figure.picture.svg();
        assert!(svg.contains("network") && svg.contains("persistence") && !svg.contains("NaN"));
        assert!(horizons.figure(4).is_none() && horizons.check().is_ok());
        let again: Horizons =
            serde_json::from_str(&serde_json::to_string(&horizons).unwrap()).unwrap();
        assert!(again.errors[1].rmse[2].is_nan());
        assert!(Horizons { ahead: vec![1], ..horizons }.check().is_err());
    }
}
