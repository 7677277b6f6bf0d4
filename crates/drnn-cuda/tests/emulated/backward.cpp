// Compares persistent/backward.cu, or with SINGLE_BLOCK single_block_backward.cu, with the equations,
// step by step, from random saved slots and states; with FROM_STATES, gradients of last and first
// states too. Arguments: units, lanes, rows, steps, tiles whose weights stay in registers.
#include "hopper.hpp"

#include "params.h"

#include "recurrence.hpp"

#if SINGLE_BLOCK
#include "../../src/kernels/persistent/single_block.cuh"

#include "../../src/kernels/persistent/single_block_backward.cu"
static const u32 PACKED = K_STEPS * THREADS, PARTIALS = 0;
#else
#include "../../src/kernels/persistent/backward.cu"
static const u32 PACKED = BLOCKS * ALL_TILES * TILE_WORDS;
static const u32 PARTIALS = (OWN_RING + (STACKED ? RING : 0)) * BLOCKS * PART;
#endif

int main(int, char** arguments) {
    check_cell();
    Recurrence r(arguments, STACKED);
    const u32 n = r.n, lanes = r.lanes, rows = r.rows, steps = r.steps, each_packed = PACKED;
    std::vector<uint4> packed(lanes * each_packed);
    for (u32 lane = 0; lane < lanes; lane++) {
        each(each_packed, [&] {
#if SINGLE_BLOCK
            pack_single_block(
                {.w_hh = r.w_hh[lane].data(),
                 .b_ih = nullptr,
                 .b_hh = nullptr,
                 .forward = nullptr,
                 .backward = packed.data() + lane * each_packed,
                 .bias = nullptr,
                 .slots_ih = r.slots_ih,
                 .slots_hh = r.slots_hh,
                 .n = n,
                 .padded = N});
#else
            pack_backward(
                {.w_ih = r.w_ih[lane].data(),
                 .w_hh = r.w_hh[lane].data(),
                 .to = packed.data() + lane * each_packed,
                 .slots_ih = r.slots_ih,
                 .slots_hh = r.slots_hh,
                 .n = n,
                 .below = r.reads_below(lane) ? n : 0,
                 .padded = N,
                 .segments = SEGMENTS,
                 .tiles = TILES,
                 .in_registers = r.in_registers,
                 .units = UNITS});
#endif
        });
    }
    const u32 slots = steps * rows * N * 4, saved_c = (steps + 2) * rows * N;
    std::vector<u16> gates(lanes * slots), c(lanes * saved_c), d_above(steps * rows * r.width());
    for (u16& x : gates) x = half(random_number(0.4f) + 0.5f);
    for (u16& x : c) x = half(random_number(1));
    for (u16& x : d_above) x = half(random_number(1));
    std::vector<u16> dh_partials(r.blocks() * PARTIALS, 0);
    std::vector<u32> read_counts(r.blocks(), 0);
    std::vector<float> d_bias(lanes * r.groups() * N * 4);
    const std::vector<u16> saved = gates;
    const PersistentBackward params = {
        .packed = packed.data(),
        .gates = gates.data(),
        .c = c.data(),
        .d_above = d_above.data(),
        .dh_partials = dh_partials.data(),
        .read_counts = read_counts.data(),
        .d_bias = d_bias.data(),
        .run = r.run.data(),
        .gates_stride = slots,
        .c_stride = saved_c,
        .width = r.width(),
        .lanes = lanes,
        .groups = r.groups(),
        .first_row = 0,
        .first_group = 0,
        .all_groups = r.groups(),
        .steps = steps,
        .rows = rows};
    // In device memory they are not scaled.
    const Header header = {.weight = 0.25f};
    const std::vector<float> d_last_h = r.states(), d_last_c = r.states();
    std::vector<float> d_first_h(d_last_h.size()), d_first_c(d_last_c.size());
#if FROM_STATES
    PersistentBackwardFromStates from_states;
    memcpy(&from_states, &params, offsetof(PersistentBackward, rows) + 4);
    from_states.header = &header, from_states.n = n;
    from_states.d_last_h = d_last_h.data(), from_states.d_first_h = d_first_h.data();
    if (CELL == LSTM)
        from_states.d_last_c = d_last_c.data(), from_states.d_first_c = d_first_c.data();
    else from_states.d_last_c = nullptr, from_states.d_first_c = nullptr;
#endif
    launch(r.blocks(), THREADS, THREADS, SHARED, [&] {
#if FROM_STATES
        persistent_backward_from_states(from_states);
#else
        persistent_backward(params);
#endif
    });

    auto d_at = [&](u32 lane, u32 step, u32 row, u32 unit, u32 slot) {
        return half_to_float(gates[lane * slots + ((step * rows + row) * N + unit) * 4 + slot]);
    };
    auto c_at = [&](u32 lane, u32 step, u32 row, u32 unit) {
        return half_to_float(c[lane * saved_c + (step * rows + row) * N + unit]);
    };
    // A unit's dh from the gradients of a step's slots.
    auto dh_from = [&](const std::vector<float>& w, u32 of, u32 lane, u32 step, u32 row, u32 unit) {
        float sum = 0;
        for (u32 j = 0; j < n; j++)
            for (u32 k = 0; k < 4; k++) {
                u32 line = r.row_of(of, k, j);
                if (line != r.NO_ROW)
                    sum += d_at(lane, step, row, j, k) * rounded(w[line * n + unit]);
            }
        return sum;
    };
    float worst = 0, largest = 0;
    // Of c, or of h past the products, that remains at the end: by lane, row, unit.
    std::vector<std::vector<std::vector<float>>> d_states(lanes);
    for (u32 lane = 0; lane < lanes; lane++)
        for (u32 row = 0; row < rows; row++) {
            std::vector<float> d_state(n, 0);
            const u32 length = r.run[row], states = (lane * rows + row) * n;
            for (u32 unit = 0; FROM_STATES && CELL == LSTM && unit < n; unit++)
                d_state[unit] = d_last_c[states + unit] / header.weight;
            for (u32 taken = steps; taken-- > 0;) {
                const u32 s = r.step(lane, taken);
                for (u32 unit = 0; unit < n; unit++) {
                    const bool receives_above = STACKED && lane + 1 < lanes;
                    float d_h = receives_above
                                    ? dh_from(r.w_ih[lane + 1], r.slots_ih, lane + 1, s, row, unit)
                                    : half_to_float(
                                          d_above
                                              [(s * rows + row) * r.width() +
                                               (STACKED ? 0 : lane * N) + unit]);
                    if (taken + 1 < steps)
                        d_h += dh_from(
                            r.w_hh[lane], r.slots_hh, lane, r.step(lane, taken + 1), row, unit);
                    if (FROM_STATES && s + 1 == (r.reverse(lane) ? 1 : length))
                        d_h += d_last_h[states + unit] / header.weight;
                    float d[4];
                    for (u32 k = 0; k < 4; k++)
                        d[k] = half_to_float(
                            saved[lane * slots + ((s * rows + row) * N + unit) * 4 + k]);
                    const bool running = s < length;
                    const float held = FROM_STATES ? d_state[unit] : 0;
                    cell_backward(
                        d, d_h, d_state[unit], c_at(lane, s + 1, row, unit),
                        c_at(lane, r.reverse(lane) ? s + 2 : s, row, unit));
                    if (!running) d_state[unit] = held;
                    for (u32 k = 0; k < 4; k++) {
                        const float expected = running ? d[k] : 0;
                        worst = std::max(worst, std::fabs(d_at(lane, s, row, unit, k) - expected));
                        largest = std::max(largest, std::fabs(expected));
                    }
                }
            }
            d_states[lane].push_back(d_state);
        }
    // Of the first states: from the slots of each row's first step.
    for (u32 lane = 0; FROM_STATES && lane < lanes; lane++)
        for (u32 row = 0; row < rows; row++)
            for (u32 unit = 0; unit < n; unit++) {
                const u32 length = r.run[row], at = (lane * rows + row) * n + unit;
                const u32 s = r.reverse(lane) ? length - 1 : 0;
                float expected = d_last_h[at] / header.weight;
                if (length > 0) {
                    expected = dh_from(r.w_hh[lane], r.slots_hh, lane, s, row, unit);
                    if (CELL == GRU) expected += d_states[lane][row][unit];
                }
                worst = std::max(worst, std::fabs(d_first_h[at] / header.weight - expected));
                if (CELL == LSTM)
                    worst = std::max(
                        worst,
                        std::fabs(d_first_c[at] / header.weight - d_states[lane][row][unit]));
            }
    // Gradients of biases are sums over steps and rows.
    for (u32 lane = 0; lane < lanes; lane++)
        for (u32 at = 0; at < n * 4; at++) {
            float sum = 0, found = 0, size = 0;
            for (u32 slot = 0; slot < steps * rows; slot++) {
                float d = half_to_float(gates[lane * slots + slot * N * 4 + at]);
                sum += d, size += std::fabs(d);
            }
            for (u32 group = 0; group < r.groups(); group++)
                found += d_bias[(lane * r.groups() + group) * N * 4 + at];
            if (std::fabs(found - sum) > 1e-2f * std::max(size, 1.0f))
                fail("a bias gradient is not the sum");
        }
    return verdict("gradients of slots", worst, largest);
}
