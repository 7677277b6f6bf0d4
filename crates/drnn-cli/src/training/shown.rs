//! The losses and the measure of an epoch in words: a number never stands without its name.

use crate::report::page::{moments, number};
use drnn_train::{Epoch, Measure, Metric};
use serde_json::{Value, json};

/// A value of a metric, with the digits that it deserves.
pub fn shown(metric: Metric, value: f64) -> String {
    if metric == Metric::SquaredError { number(value) } else { format!("{value:.4}") }
}

/// Mean and standard deviation of several values; `not finite` if one is not, `none` of none.
pub fn mean_and_sd(metric: Metric, values: &[f64]) -> String {
    match moments(values) {
        _ if values.is_empty() => "none".into(),
        (mean, _) if !mean.is_finite() => "not finite".into(),
        (mean, Some(sd)) => format!("{} ± {}", shown(metric, mean), shown(metric, sd)),
        (mean, None) => shown(metric, mean),
    }
}

/// The measure on the validation set: `valid accuracy 0.9122`. If only losses are watched, the loss,
/// and the value of `metric`.
pub fn valid_text(metric: Metric, measure: &Measure, epoch: &Epoch) -> String {
    if measure.metric != Metric::Loss {
        return format!("valid {} {}", measure.metric, shown(measure.metric, epoch.watched()));
    }
    let loss = format!("valid loss {:.4}", epoch.valid_loss);
    match (metric, epoch.valid_accuracy) {
        (Metric::Accuracy, Some(accuracy)) => format!("{loss} accuracy {accuracy:.4}"),
        (Metric::Bits, _) => format!("{loss} bits {:.4}", bits(epoch.valid_loss)),
        _ => loss,
    }
}

/// The loss of the training set; in bits if the measure is.
pub fn train_text(measure: &Measure, epoch: &Epoch) -> String {
    match measure.metric {
        Metric::Bits => format!("train bits {:.4}", bits(epoch.train_loss)),
        _ => format!("train loss {:.4}", epoch.train_loss),
    }
}

/// What the numbers of a log are, said once: `train loss: squared error, y scaled; valid: mean squared
/// error, y in own units`. None where only losses are watched.
pub fn legend(measure: &Measure) -> Option<String> {
    match measure.metric {
        Metric::Loss => None,
        Metric::Bits => Some(format!("train and valid: {measure}")),
        _ => Some(format!("train loss: {}; valid: {measure}", measure.loss)),
    }
}

/// The same for a line of log.jsonl: losses as trained, the measure, and what they are.
pub fn logged(measure: &Measure, epoch: &Epoch) -> Value {
    json!({
        "train_loss": epoch.train_loss, "valid_loss": epoch.valid_loss, "loss": measure.loss,
        "valid": epoch.watched(), "measure": measure.to_string(),
        "valid_accuracy": epoch.valid_accuracy,
    })
}

/// Nats as bits.
pub fn bits(nats: f64) -> f64 {
    nats / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_name() {
        let epoch = Epoch {
            epoch: 1,
            train_loss: 2.0,
            valid_loss: 1.0,
            valid_accuracy: Some(0.5),
            valid_score: None,
            norm: 1.0,
            rate: 0.1,
        };
        let loss = Measure::new(Metric::Loss);
        assert_eq!(
            valid_text(Metric::Accuracy, &loss, &epoch),
            "valid loss 1.0000 accuracy 0.5000"
        );
        assert_eq!(legend(&loss), None);
        let epoch = Epoch { valid_score: Some(0.0035561), ..epoch };
        let own = Measure::new(Metric::SquaredError).of("y in own units");
        let text = valid_text(Metric::SquaredError, &own, &epoch);
        assert_eq!(text, "valid mean squared error 0.003556");
        assert_eq!(train_text(&own, &epoch), "train loss 2.0000");
        let line = logged(&own, &epoch);
        assert_eq!(line["valid"].as_f64(), Some(0.0035561));
        assert_eq!(line["measure"], "mean squared error, y in own units");
    }
}
