//! A network's kind, size and delay, independent of the data: `dlstm-5`, `bilstm`, `gru`.

use crate::Failure;
use crate::args::network::{self, NetworkKind, Nonlinearity};
use clap::{Args, ValueEnum};
use drnn::{NetSpec, NetSpecBuilder, Padding, Result};
use std::fmt;

/// Kind, size and delay on the command line.
#[derive(Debug, Args)]
pub struct ShapeArguments {
    /// Kind of network
    #[arg(long, value_enum, default_value = "dlstm")]
    net: NetworkKind,
    /// Number of layers, k [default: 1, or as many as --units names]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=1000))]
    layers: Option<u16>,
    /// Units per layer, n; or one number per layer: 128,64
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "100")]
    units: Vec<usize>,
    /// Delay between an input and its output in steps, d [default: 5 for delayed networks, 0 for
    /// forecasts, less if the data are short]
    #[arg(long, value_name = "D")]
    delay: Option<usize>,
    /// Width that an LSTM's states are projected to, as PyTorch's proj_size [default: none]
    #[arg(long, value_name = "P")]
    projection: Option<usize>,
}

impl ShapeArguments {
    /// The value of --delay.
    pub fn delay(&self) -> Option<usize> {
        self.delay
    }

    /// The shape that they describe, with this delay for a delayed network without --delay.
    pub fn shape(&self, default_delay: usize) -> std::result::Result<Shape, Failure> {
        let units = network::layer_units(&self.units, self.layers.map(usize::from))?;
        let delay = network::checked_delay(self.net, self.delay, default_delay)?;
        Ok(Shape { kind: self.net, units, delay, projection: self.projection })
    }
}

/// Kind, units of each layer, and delay.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub kind: NetworkKind,
    /// Per direction.
    pub units: Vec<usize>,
    /// 0 where the kind is not delayed.
    pub delay: usize,
    /// Width that states are projected to.
    pub projection: Option<usize>,
}

impl Shape {
    /// Units of the widest layer.
    pub fn widest(&self) -> usize {
        self.units.iter().max().copied().unwrap_or(0)
    }

    /// The same with at most `widest` units in a layer.
    pub fn up_to(&self, widest: usize) -> Shape {
        Shape { units: self.units.iter().map(|n| *n.min(&widest)).collect(), ..self.clone() }
    }

    /// The network with the input and outputs that `data` adds to a builder; `padding` is what a
    /// delayed one reads after the end.
    pub fn spec(
        &self,
        padding: Padding,
        data: impl Fn(NetSpecBuilder) -> NetSpecBuilder,
    ) -> Result<NetSpec> {
        let cell = self.kind.cell(Nonlinearity::Tanh);
        let builder = data(NetSpec::builder(cell)).units(self.units.clone());
        let builder = builder.delay(self.delay, padding);
        let builder = self.projection.into_iter().fold(builder, NetSpecBuilder::projection);
        if self.kind.bidirectional() { builder.bidirectional().build() } else { builder.build() }
    }

    /// For a fair comparison: a bidirectional network gets the largest number of units with which it
    /// has no more parameters than the unidirectional one. Others stay as they are.
    pub fn same_size(mut self, data: impl Fn(NetSpecBuilder) -> NetSpecBuilder) -> Result<Shape> {
        if !self.kind.bidirectional() {
            return Ok(self);
        }
        let plain = Shape { kind: self.kind.plain(), delay: 0, ..self.clone() };
        let limit = plain.spec(Padding::Null, &data)?.parameters();
        let (all, first) = (self.units.clone(), self.units[0]);
        let mut of = |k: usize| {
            self.units = all.iter().map(|n| (n * k / first).max(1)).collect();
            Ok(self.spec(Padding::Null, &data)?.parameters())
        };
        // Bisection: the number of parameters rises with every unit.
        let (mut fits, mut too_large) = (1, first);
        while too_large - fits > 1 {
            let middle = (fits + too_large) / 2;
            if of(middle)? <= limit { fits = middle } else { too_large = middle }
        }
        of(fits)?;
        Ok(self)
    }

    /// The delay d in steps; None for a bidirectional network, which needs the whole sequence.
    pub fn latency(&self) -> Option<usize> {
        (!self.kind.bidirectional()).then_some(self.delay)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let kind = self.kind.to_possible_value();
        f.write_str(kind.as_ref().map_or("", |value| value.get_name()))?;
        if self.kind.delayed() { write!(f, "-{}", self.delay) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bidirectional_network_of_the_same_size() {
        let data = |builder: NetSpecBuilder| builder.dense(4).outputs(4);
        for units in [vec![100], vec![64, 64], vec![7]] {
            let of = |kind| Shape { kind, units: units.clone(), delay: 0, projection: None };
            let both = of(NetworkKind::Bilstm).same_size(data).unwrap();
            let [both_size, plain_size] = [&both, &of(NetworkKind::Lstm)]
                .map(|s| s.spec(Padding::Null, data).unwrap().parameters());
            let more = Shape { units: both.units.iter().map(|n| n + 1).collect(), ..both.clone() };
            assert!(both_size <= plain_size, "{both:?}");
            assert!(more.spec(Padding::Null, data).unwrap().parameters() > plain_size, "{both:?}");
        }
        let late = Shape { kind: NetworkKind::Dgru, units: vec![5], delay: 3, projection: None };
        assert_eq!((late.to_string(), late.latency()), ("dgru-3".into(), Some(3)));
    }
}
