//! The curves of a training: what was watched, with the chosen epoch on it, and the losses.

use super::page::Figure;
use super::training_run::TrainingResults;
use crate::plot::{Line, Plot, Scale, Style};
use crate::training::shown::bits;
use drnn_train::{Epoch, Metric};

/// Name, colour, and the value of an epoch.
type Curve = (&'static str, usize, fn(&Epoch) -> Option<f64>);

impl TrainingResults {
    /// The measure after each epoch, and the losses if they are something else.
    pub fn curves(&self) -> Vec<Figure> {
        let train = "That of the training set is the mean over the epoch, while the network was being \
                     trained.";
        let kept = "the vertical line is the saved model.";
        let kept_epoch = Some(self.kept_epoch as f64);
        // Files of earlier versions say no measure: squared errors were chosen by the loss.
        let measure = self.measure.as_ref();
        let value: fn(&Epoch) -> Option<f64> = match self.metric {
            Metric::Bits => {
                let both: [Curve; 2] = [
                    ("validation", 0, |e| Some(e.valid_score.unwrap_or(bits(e.valid_loss)))),
                    ("training", 1, |e| Some(bits(e.train_loss))),
                ];
                let caption = format!("Bits after each epoch; {kept} {train}");
                return vec![self.figure("losses", "Bits", &both, "bits", kept_epoch, caption)];
            }
            Metric::Accuracy => |e| e.valid_score.or(e.valid_accuracy),
            Metric::SquaredError | Metric::Loss => |e| e.valid_score,
        };
        let losses: [Curve; 2] =
            [("validation", 0, |e| Some(e.valid_loss)), ("training", 1, |e| Some(e.train_loss))];
        let unit = measure.map_or("loss", |measure| &measure.loss);
        if self.history.iter().all(|epoch| value(epoch).is_none()) {
            let caption = format!("Loss after each epoch; {kept} {train}");
            return vec![self.figure("losses", "Loss", &losses, unit, kept_epoch, caption)];
        }
        let (title, measured) = (format!("Validation: {}", self.metric), self.measured());
        let caption = format!("{measured}, on the validation set after each epoch; {kept}");
        let watched = [("validation", 0, value)];
        let caption_of_losses = format!("Loss after each epoch: {unit}. {train}");
        vec![
            self.figure("validation", &title, &watched, &measured, kept_epoch, caption),
            self.figure("losses", "Loss", &losses, unit, None, caption_of_losses),
        ]
    }

    fn figure(
        &self,
        name: &'static str,
        title: &str,
        curves: &[Curve],
        unit: &str,
        guide: Option<f64>,
        caption: String,
    ) -> Figure {
        let line = |(name, colour, value): &Curve| Line {
            name: (*name).into(),
            style: Style::Bare,
            colour: *colour,
            strength: 1.0,
            points: self.history.iter().filter_map(|e| Some((e.epoch as f64, value(e)?))).collect(),
            bars: Vec::new(),
        };
        let lines: Vec<Line> = curves.iter().map(line).collect();
        let values = || lines.iter().flat_map(|line| &line.points).map(|p| p.1);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let log = name == "losses" || self.metric == Metric::SquaredError;
        let log = log && least > 0.0 && most >= 10.0 * least;
        let picture = Plot {
            title: title.into(),
            x: "epoch".into(),
            y: if log { format!("{unit}, logarithmic") } else { unit.into() },
            scale: if log { Scale::Log } else { Scale::Around },
            guide,
            lines,
        };
        Figure { name, picture: Box::new(picture), caption }
    }
}
