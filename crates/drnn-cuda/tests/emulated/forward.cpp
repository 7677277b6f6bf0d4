// Compares persistent/forward.cu, or with SINGLE_BLOCK single_block_forward.cu, with the equations,
// step by step: h within f16 rounding, zeros at both ends; with FROM_STATES, first states there, and
// last states. Arguments: units, lanes, rows, steps, k-steps whose weights stay in registers.
#include "hopper.hpp"

#include "params.h"

#include "recurrence.hpp"

#if SINGLE_BLOCK
#include "../../src/kernels/persistent/single_block.cuh"

#include "../../src/kernels/persistent/single_block_forward.cu"
static const u32 ALL_THREADS = THREADS, FIRST_THREADS = THREADS, PACKED = 4 * K_STEPS * THREADS;
#else
#include "../../src/kernels/persistent/forward_block.cuh"

#include "../../src/kernels/persistent/forward.cu"
static const u32 ALL_THREADS = CONSUMER_THREADS + PRODUCER_THREADS;
static const u32 FIRST_THREADS = CONSUMER_THREADS, PACKED = BLOCKS * K_STEPS * 256;
#endif
#include "../../src/kernels/recurrence/states.cu"

int main(int, char** arguments) {
    Recurrence r(arguments, BELOW);
    const u32 n = r.n, lanes = r.lanes, rows = r.rows, steps = r.steps, each_packed = PACKED;
    std::vector<uint4> packed(lanes * each_packed);
    std::vector<float> bias(lanes * N * 4);
    for (u32 lane = 0; lane < lanes; lane++) {
        each(std::max(each_packed, 4u * N), [&] {
#if SINGLE_BLOCK
            pack_single_block(
                {.w_hh = r.w_hh[lane].data(),
                 .b_ih = r.b_ih[lane].data(),
                 .b_hh = r.b_hh[lane].data(),
                 .forward = packed.data() + lane * each_packed,
                 .backward = nullptr,
                 .bias = bias.data() + lane * N * 4,
                 .slots_ih = r.slots_ih,
                 .slots_hh = r.slots_hh,
                 .n = n,
                 .padded = N});
#else
            pack_forward(
                {.w_ih = r.w_ih[lane].data(),
                 .w_hh = r.w_hh[lane].data(),
                 .b_ih = r.b_ih[lane].data(),
                 .b_hh = r.b_hh[lane].data(),
                 .to = packed.data() + lane * each_packed,
                 .bias = bias.data() + lane * N * 4,
                 .slots_ih = r.slots_ih,
                 .slots_hh = r.slots_hh,
                 .n = n,
                 .below = r.reads_below(lane) ? n : 0,
                 .padded = N,
                 .segments = BELOW + 1,
                 .in_registers = r.in_registers,
                 .units = UNITS});
#endif
        });
    }
    const u32 slots = steps * rows * N * 4, saved = (steps + 2) * rows * N, symbols = TABLE ? 6 : 0;
    std::vector<u16> gates(lanes * slots), c(lanes * saved), h(lanes * saved);
    // First states have a place after the last step.
    const u32 step_stride = SINGLE_BLOCK ? 0 : lanes * r.groups() * N * NB;
    std::vector<u16> h_exchange((steps + FROM_STATES) * step_stride, 0xffff);
    // Of h, and of the cell: c, or h again.
    const std::vector<float> first_h = r.states(), other = r.states();
    const std::vector<float>& first = CELL == LSTM ? other : first_h;
    std::vector<float> last(first.size());
    std::vector<u16> table((STACKED ? 1 : lanes) * symbols * N * 4);
    std::vector<u32> tokens(symbols ? steps * rows : 0);
    for (u16& x : gates) x = half(random_number(0.5f));
    for (u16& x : table) x = half(random_number(0.5f));
    for (u32& token : tokens) {
        token = (u32)((random_number(0.5f) + 0.5f) * (symbols + 1));
        if (token == symbols) token = NONE;
    }
    const std::vector<u16> x = gates;
    // The h exchange of a layer below that has finished: (S, BELOW groups, N / 8, NB, 8), zero in
    // padding.
    const u32 finished = STACKED ? 0 : BELOW;
    std::vector<u16> below(steps * finished * r.groups() * N * NB);
    auto below_at = [&](u32 step, u32 direction, u32 row, u32 unit) -> u16& {
        const u32 group = (step * finished + direction) * r.groups() + row / NB;
        return below[((group * N + unit / 8 * 8) * NB) + row % NB * 8 + unit % 8];
    };
    for (u32 step = 0; step < steps; step++)
        for (u32 row = 0; row < rows; row++)
            for (u32 j = 0; j < finished * n; j++)
                below_at(step, j / n, row, j % n) = half(random_number(1));
    const u32 parity = 1;
    const PersistentForward params = {
        .packed = packed.data(),
        .bias = bias.data(),
        .gates = gates.data(),
        .table = table.data(),
        .tokens = symbols ? tokens.data() : nullptr,
        .c = c.data(),
        .h = h.data(),
        .h_exchange_even = nullptr,
        .h_exchange_odd = h_exchange.data(),
        .below_even = nullptr,
        .below_odd = below.data(),
        .parity = &parity,
        .run = r.run.data(),
        .gates_stride = slots,
        .c_stride = saved,
        .h_stride = STACKED ? saved : N,
        .symbols = symbols,
        .width = r.width(),
        .lanes = lanes,
        .groups = r.groups(),
        .first_row = 0,
        .steps = steps,
        .rows = rows,
        .save = 1};
#if FROM_STATES
    each(lanes * r.groups() * N * NB, [&] {
        place_states_half(
            {.first_h = first_h.data(),
             .first_c = first.data(),
             .h = h.data(),
             .c = c.data(),
             .exchange = SINGLE_BLOCK ? nullptr : h_exchange.data() + steps * step_stride,
             .h_stride = params.h_stride,
             .c_stride = params.c_stride,
             .width = params.width,
             .lanes = lanes,
             .groups = r.groups(),
             .block_rows = NB,
             .first_row = 0,
             .steps = steps,
             .rows = rows,
             .n = n,
             .padded = N,
             .save = 1});
    });
    PersistentForwardFromStates from_states;
    memcpy(&from_states, &params, offsetof(PersistentForward, save) + 4);
    from_states.first = first.data(), from_states.last = last.data(), from_states.n = n;
#endif
    launch(r.blocks(), ALL_THREADS, FIRST_THREADS, SHARED, [&] {
#if FROM_STATES
        persistent_forward_from_states(from_states);
#else
        persistent_forward(params);
#endif
    });

    auto h_at = [&](u32 lane, u32 step, u32 row, u32 unit) {
        return half_to_float(
            STACKED ? h[lane * saved + (step * rows + row) * N + unit]
                    : h[(step * rows + row) * r.width() + lane * N + unit]);
    };
    float worst = 0;
    for (u32 lane = 0; lane < lanes; lane++)
        for (u32 row = 0; row < rows; row++) {
            std::vector<float> state(n, 0), before(n, 0), after(n);
            auto first_of = [&](const std::vector<float>& all, u32 unit) {
                return FROM_STATES ? all[(lane * rows + row) * n + unit] : 0;
            };
            for (u32 unit = 0; unit < n; unit++)
                state[unit] = first_of(first, unit),
                before[unit] = rounded(first_of(first_h, unit));
            for (u32 taken = 0; taken < steps; taken++) {
                const u32 s = r.step(lane, taken);
                for (u32 unit = 0; unit < n; unit++) {
                    float slot[4];
                    for (u32 k = 0; k < 4; k++) {
                        const u32 ih = r.row_of(r.slots_ih, k, unit),
                                  hh = r.row_of(r.slots_hh, k, unit);
                        float sum = 0;
                        if (ih != r.NO_ROW) sum += r.b_ih[lane][ih];
                        if (hh != r.NO_ROW) sum += r.b_hh[lane][hh];
                        if (!r.reads_below(lane) && !symbols)
                            sum += half_to_float(
                                x[lane * slots + ((s * rows + row) * N + unit) * 4 + k]);
                        if (!r.reads_below(lane) && symbols && tokens[s * rows + row] != NONE)
                            sum += half_to_float(
                                table
                                    [((lane * symbols + tokens[s * rows + row]) * N + unit) * 4 +
                                     k]);
                        for (u32 j = 0; r.reads_below(lane) && ih != r.NO_ROW && j < r.inputs();
                             j++) {
                            const float value = STACKED
                                                    ? h_at(lane - 1, s + 1, row, j)
                                                    : half_to_float(below_at(s, j / n, row, j % n));
                            sum += rounded(r.w_ih[lane][ih * r.inputs() + j]) * value;
                        }
                        for (u32 j = 0; j < n; j++) {
                            if (hh != r.NO_ROW)
                                sum += rounded(r.w_hh[lane][hh * n + j]) * before[j];
                        }
                        slot[k] = sum;
                    }
                    if (s < r.run[row]) after[unit] = cell_forward(slot, state[unit]);
                    else after[unit] = r.reverse(lane) ? first_of(first_h, unit) : 0;
                }
                for (u32 unit = 0; unit < n; unit++) {
                    before[unit] = h_at(lane, s + 1, row, unit); // with what it has rounded
                    worst = std::max(worst, std::fabs(before[unit] - after[unit]));
                }
            }
            for (u32 unit = 0; unit < N; unit++) {
                const float end = unit < n ? rounded(first_of(first_h, unit)) : 0;
                if (h_at(lane, 0, row, unit) != end || h_at(lane, steps + 1, row, unit) != end)
                    fail("h does not end with first states");
            }
            for (u32 unit = 0; FROM_STATES && unit < n; unit++)
                worst = std::max(
                    worst, std::fabs(last[(lane * rows + row) * n + unit] - state[unit]));
        }
    return verdict("h", worst, 1);
}
