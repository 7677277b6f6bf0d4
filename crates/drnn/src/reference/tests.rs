//! The oracle against hands and differences.

use super::*;
use crate::random::Rng;

fn random(rng: &mut Rng, rows: usize, width: usize) -> Vec<Vec<f64>> {
    let mut row = || (0..width).map(|_| f64::from(rng.symmetric(0.8))).collect();
    (0..rows).map(|_| row()).collect()
}

#[test]
fn one_unit_by_hand() {
    // h = max(0, 2 x + 0.5 h' + 1 - 3), y = 10 h - 1, two steps late.
    let spec = NetSpec::builder(Cell::RnnRelu).dense(1).units([1]).delay(2, Padding::Null);
    let spec = spec.outputs(1).build().unwrap();
    let params = [2.0, 0.5, 1.0, -3.0, 10.0, -1.0];
    let start = RefState { h: vec![vec![4.0]], c: vec![] };
    let x = Sequence::Dense(vec![vec![1.0], vec![4.0], vec![1.5]]);
    // Steps 0 to 4 read 1, 4, 1.5, 0, 0 and give h = 2, 7, 4.5, 0.25, 0 (max with -1.875).
    let found = run(&spec, &params, &x, &start);
    assert_eq!(found.outputs, [[44.0], [1.5], [-1.0]]);
    assert_eq!(found.last.h, [[0.0]]);
    // y_0 = 10 h_2 - 1 and dh_2 / dx_0 = 2 * 0.5 * 0.5; y_2 sits on the flat side of the kink.
    let zero = zero_state(&spec);
    let d_y = [vec![1.0], vec![0.0], vec![7.0]];
    let found = gradient(&spec, &params, &x, &start, &d_y, &zero);
    assert_eq!(found.input, [[5.0], [10.0], [20.0]]);
    assert_eq!(found.start.h, [[1.25]]);
    assert_eq!(found.params[4..], [4.5, 8.0]);

    let none = run(&spec, &params, &Sequence::Dense(vec![]), &start);
    assert_eq!((none.outputs, none.last), (vec![], start.clone()));
    let spec = NetSpec::builder(Cell::RnnRelu).dense(1).units([1]).delay(3, Padding::LookAhead);
    let none = run(&spec.outputs(1).build().unwrap(), &params, &x, &start);
    assert_eq!((none.outputs, none.last), (vec![], start));
}

#[test]
fn reverse_direction_reads_from_the_end_and_stands_second() {
    // Both directions add up their input: h = x + h'.
    let spec = NetSpec::builder(Cell::RnnRelu).dense(1).units([1]).bidirectional();
    let spec = spec.build().unwrap();
    let params = [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0];
    let x = Sequence::Dense(vec![vec![1.0], vec![2.0], vec![4.0]]);
    let found = run(&spec, &params, &x, &zero_state(&spec));
    assert_eq!(found.outputs, [[1.0, 7.0], [3.0, 6.0], [7.0, 4.0]]);
    assert_eq!(found.last.h, [[7.0], [7.0]]);
}

#[test]
fn dual_slopes_equal_finite_differences() {
    let mut rng = Rng::new(3);
    for cell in Cell::ALL {
        let spec = NetSpec::builder(cell).dense(2).units([3, 2]).bidirectional().outputs(2);
        let spec = spec.build().unwrap();
        let mut states = [zero_state::<f64>(&spec), zero_state(&spec)];
        let values = states.iter_mut().flat_map(|s| s.h.iter_mut().chain(&mut s.c)).flatten();
        values.for_each(|x| *x = f64::from(rng.symmetric(0.8)));
        let [start, d_last] = states;
        let d_y = random(&mut rng, 3, 2);
        let params = random(&mut rng, 1, spec.parameters()).remove(0);
        let sequence = Sequence::Dense(random(&mut rng, 3, 2));
        let found = gradient(&spec, &params, &sequence, &start, &d_y, &d_last);

        let loss = |at: &Point<f64>| {
            let found = run(&spec, &at.params, &at.sequence, &at.start);
            let pairs = [(&d_y, &found.outputs), (&d_last.h, &found.last.h)];
            let pairs = pairs.into_iter().chain([(&d_last.c, &found.last.c)]);
            let dots = pairs.flat_map(|(w, y)| w.iter().flatten().zip(y.iter().flatten()));
            dots.map(|(w, y)| w * y).sum::<f64>()
        };
        let mut at = Point { params, sequence, start };
        let mut shifted = |i: usize, by: f64| {
            let place = |at: &mut Point<f64>, x| *at.coordinates().nth(i).unwrap() = x;
            let x = *at.coordinates().nth(i).unwrap();
            place(&mut at, x + by);
            let found = loss(&at);
            place(&mut at, x);
            found
        };
        let slopes = Sequence::Dense(found.input);
        let mut slopes = Point { params: found.params, sequence: slopes, start: found.start };
        for (i, slope) in slopes.coordinates().enumerate() {
            let e = 1e-5;
            let difference = (shifted(i, e) - shifted(i, -e)) / (2.0 * e);
            let error = (*slope - difference).abs();
            assert!(error < 1e-8, "{cell:?}, coordinate {i}: {slope}, not {difference}");
        }
    }
}
