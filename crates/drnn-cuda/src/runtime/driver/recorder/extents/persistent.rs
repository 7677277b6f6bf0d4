//! Kernels of `kernels/persistent`: packed weights, the exchange, recurrences.

use super::{Call, Extents, HEADER, gates, needs, of_lanes, strided};

pub(super) fn extents(call: &Call) -> Option<Extents> {
    let name = call.signature.name.as_str();
    match name {
        _ if name.starts_with("persistent_forward") => Some(persistent_forward(call)),
        _ if name.starts_with("persistent_backward") => Some(persistent_backward(call)),
        _ => [pack, step_by_step, exchange].iter().find_map(|file| file(call)),
    }
}

/// `pack.cu`: a thread per 16 bytes of what is written.
fn pack(call: &Call) -> Option<Extents> {
    let v = |name: &str| call.number(name);
    Some(match call.signature.name.as_str() {
        "pack_forward" => {
            let (n, padded) = (v("n"), v("padded"));
            // The k-steps of a block do not depend on its units.
            let values = padded / 32 * (v("segments") * padded / 16) * 256;
            let [of_ih, of_hh] = ["slots_ih", "slots_hh"].map(|name| gates(v(name)) * n);
            let from = [("w_ih", of_ih * v("below") * (v("segments") - 1)), ("w_hh", of_hh * n)];
            let biases = [("b_ih", of_ih), ("b_hh", of_hh), ("bias", 4 * padded)];
            let to = ("to", 8 * values);
            needs(values.max(4 * padded), [from[0], from[1], biases[0], biases[1], biases[2], to])
        }
        "pack_backward" => {
            let (blocks, of_tile) = (v("padded") / v("units"), 2 * v("units") / 4 * 128);
            let (n, values) = (v("n"), blocks * v("segments") * v("tiles") * of_tile);
            let w_ih = ("w_ih", gates(v("slots_ih")) * n * v("below"));
            let w_hh = ("w_hh", gates(v("slots_hh")) * n * n);
            needs(values, [w_ih, w_hh, ("to", 8 * values)])
        }
        "pack_bias" => {
            let [of_ih, of_hh] = ["slots_ih", "slots_hh"].map(|name| gates(v(name)) * v("n"));
            let threads = 4 * v("padded");
            needs(threads, [("b_ih", of_ih), ("b_hh", of_hh), ("bias", threads)])
        }
        "pack_single_block" => {
            let (n, padded) = (v("n"), v("padded"));
            let values = padded * padded / 2;
            let [of_ih, of_hh] = ["slots_ih", "slots_hh"].map(|name| gates(v(name)) * n);
            let [w_hh, bias] = [("w_hh", of_hh * n), ("bias", 4 * padded)];
            let [forward, backward] = ["forward", "backward"].map(|name| (name, 8 * values));
            let biases = [("b_ih", of_ih), ("b_hh", of_hh)];
            let threads = values.max(4 * padded);
            needs(threads, [w_hh, biases[0], biases[1], forward, backward, bias])
        }
        _ => return None,
    })
}

/// `step_by_step.cu`: a thread per two units of a row, or per gradient of a state, or per two units
/// and chunk.
fn step_by_step(call: &Call) -> Option<Extents> {
    let v = |name: &str| call.number(name);
    let name = call.signature.name.as_str();
    if !["slots_forward", "slots_backward", "first_gradients", "sum_slots"].contains(&name) {
        return None;
    }
    let padded = v("padded");
    if name == "sum_slots" {
        let chunks = call.launch.grid[1];
        let (from, to) = (v("positions") * 4 * padded, chunks * 4 * padded);
        return Some(needs(padded / 2 * chunks, [("from", from), ("to", to)]));
    }
    let (rows, n) = (v("rows"), v("n"));
    let (values, states) = (rows * padded, rows * n);
    let given = |names: &[&'static str]| names.iter().map(|name| (*name, states)).collect();
    let own: Vec<_> = match name {
        "slots_forward" => {
            let (width, symbols) = (v("width"), v("symbols"));
            let h = strided(rows, width, padded);
            let reads_x = symbols == 0 || v("save") != 0;
            let gates = if reads_x { 4 * values } else { 0 };
            let c = if v("save") != 0 { values } else { 0 };
            let tokens = [("table", symbols * 4 * padded), ("tokens", rows)];
            let states = [("h_before", h), ("h", h), ("c", c), ("state", values)];
            let own = [("sums", 4 * values), ("bias", 4 * padded), ("gates", gates)];
            [&own[..], &tokens, &states, &[("run", rows)]].concat()
        }
        "slots_backward" => vec![
            ("header", HEADER),
            ("gates", 4 * values),
            ("c_now", values),
            ("c_before", values),
            ("d_above", strided(rows, v("width"), padded)),
            ("d_h", values),
            ("d_state", values),
            ("run", rows),
        ],
        _ => vec![("header", HEADER), ("d_h", values), ("d_state", values), ("run", rows)],
    };
    let states: Vec<_> = match name {
        "slots_forward" => given(&["first", "last"]),
        "slots_backward" => given(&["d_last_h", "d_last_c", "d_first_h"]),
        _ => given(&["d_last_h", "d_first_h", "d_first_c"]),
    };
    let threads = if name == "first_gradients" { states[0].1 } else { values / 2 };
    Some(Extents { threads, arrays: own.into_iter().chain(states).collect() })
}

/// `exchange.cu`: a thread per 8 times 16 bytes.
fn exchange(call: &Call) -> Option<Extents> {
    Some(match call.signature.name.as_str() {
        "flip_exchange" => needs(1, [("parity", 1)]),
        "reset_exchange" => {
            let count = call.number("count");
            needs(count.div_ceil(8), [("even", 8 * count), ("odd", 8 * count), ("parity", 1)])
        }
        _ => return None,
    })
}

/// Units with padding, rows of a block, lanes, groups of a launch; then steps and rows.
fn tiles(call: &Call) -> [usize; 6] {
    ["N", "NB", "lanes", "groups", "steps", "rows"].map(|name| call.number(name))
}

fn persistent_forward(call: &Call) -> Extents {
    let [padded, block_rows, lanes, groups, steps, rows] = tiles(call);
    let (symbols, slots) = (call.number("symbols"), steps * rows);
    let [saves, stacked] = ["save", "STACKED"].map(|name| call.number(name) != 0);
    let below = call.number("BELOW");
    let gates = match (saves, symbols > 0) {
        (false, true) => 0,
        (false, false) if stacked => slots * padded * 4,
        (false, false) if below > 0 => 0,
        _ => of_lanes(call, "gates_stride", slots * padded * 4),
    };
    let positions = (steps + 2) * rows;
    let c = if saves { of_lanes(call, "c_stride", positions * padded) } else { 0 };
    let h = strided(positions, call.number("width"), padded);
    let from_states = call.signature.name.ends_with("from_states");
    // First states have a place after the last step.
    let alone = call.number("SINGLE_BLOCK") != 0;
    let places = if alone { 0 } else { steps + usize::from(from_states) };
    let [exchange, exchange_below] =
        [lanes, below].map(|lanes| places * lanes * groups * padded * block_rows);
    let arrays = vec![
        ("packed", lanes * padded / 32 * ((1 + below) * padded / 16) * 256 * 8),
        ("bias", lanes * padded * 4),
        ("gates", gates),
        ("table", if stacked { 1 } else { lanes } * symbols * padded * 4),
        ("tokens", if symbols > 0 { slots } else { 0 }),
        ("c", c),
        ("h", of_lanes(call, "h_stride", h)),
        ("h_exchange_even", exchange),
        ("h_exchange_odd", exchange),
        ("below_even", exchange_below),
        ("below_odd", exchange_below),
        ("parity", 1),
        ("run", rows),
    ];
    let states = ["first", "last"];
    let threads = lanes * groups * padded / call.number("UNITS") * call.launch.threads;
    Extents { threads, arrays: with_states(call, arrays, states, lanes * rows) }
}

/// Adds the states of a kernel that begins with given ones, of so many rows.
fn with_states<const COUNT: usize>(
    call: &Call,
    mut arrays: Vec<(&'static str, usize)>,
    states: [&'static str; COUNT],
    rows: usize,
) -> Vec<(&'static str, usize)> {
    if call.signature.name.ends_with("from_states") {
        arrays.extend(states.map(|name| (name, rows * call.number("n"))));
    }
    arrays
}

fn persistent_backward(call: &Call) -> Extents {
    let [padded, block_rows, lanes, groups, steps, rows] = tiles(call);
    let (units, slots) = (call.number("UNITS"), steps * rows);
    let blocks = padded / units;
    let [all_groups, first_group] = ["all_groups", "first_group"].map(|name| call.number(name));
    let written = (lanes - 1) * all_groups + first_group + groups;
    let stacked = call.number("STACKED") != 0;
    let (segments, ring) = if stacked { (2, 2 + call.number("RING")) } else { (1, 2) };
    let tiles = padded.div_ceil(64).div_ceil(2);
    let packed = match call.number("SINGLE_BLOCK") {
        0 => blocks * segments * tiles * (2 * units / 4 * 128),
        _ => padded * padded / 2,
    };
    let exchanging = if call.number("SINGLE_BLOCK") == 0 { lanes * groups * blocks } else { 0 };
    let above = if stacked { padded } else { lanes * padded };
    let mut arrays = vec![
        ("packed", lanes * packed * 8),
        ("gates", of_lanes(call, "gates_stride", slots * padded * 4)),
        ("c", of_lanes(call, "c_stride", (steps + 2) * rows * padded)),
        ("d_above", strided(slots, call.number("width"), above)),
        ("dh_partials", ring * exchanging * blocks * units * block_rows),
        ("read_counts", if stacked { exchanging } else { 0 }),
        ("d_bias", written * padded * 4),
        ("run", rows),
    ];
    if call.signature.name.ends_with("from_states") {
        arrays.push(("header", HEADER));
    }
    let states = ["d_last_h", "d_last_c", "d_first_h", "d_first_c"];
    let threads = lanes * groups * blocks * call.launch.threads;
    Extents { threads, arrays: with_states(call, arrays, states, lanes * rows) }
}
