// A random recurrence: weights in the layout of parameters, packed by the kernels, and a ragged
// batch. Every array is an allocation of its exact length, so that the sanitizer finds accesses
// outside.
#pragma once

#include "../../src/kernels/common/lstm.cuh"

#include "../../src/kernels/common/cell.cuh"
#include "../../src/kernels/persistent/pack.cu"

// Uniform in [-scale, scale).
inline float random_number(float scale) {
    static u32 state = 1;
    state = state * 1664525u + 1013904223u;
    return ((state >> 8) / 8388608.0f - 1) * scale;
}
inline float rounded(float x) { return half_to_float(half(x)); }

struct Recurrence {
    u32 n, lanes, rows, steps, in_registers;
    // Directions of the layer below whose h is multiplied too.
    u32 below;
    // As in persistent/slots.rs, and the number of gates.
    u32 slots_ih, slots_hh, gates;
    std::vector<std::vector<float>> w_ih, w_hh, b_ih, b_hh;
    std::vector<u32> run;

    Recurrence(char** arguments, u32 below) : below(below) {
        u32* const to[] = {&n, &lanes, &rows, &steps, &in_registers};
        for (u32 i = 0; i < 5; i++) *to[i] = atoi(arguments[1 + i]);
        gates = CELL == LSTM ? 4 : CELL == GRU ? 3 : 1;
        slots_ih = CELL == LSTM ? 0x03020100 : CELL == GRU ? 0x02ff0100 : 0xffffff00;
        slots_hh = CELL == LSTM ? 0x03020100 : CELL == GRU ? 0xff020100 : 0xffffff00;
        auto numbers = [&](u32 count, float scale) {
            std::vector<float> v(count);
            for (float& x : v) x = random_number(scale);
            return v;
        };
        for (u32 lane = 0; lane < lanes; lane++) {
            w_ih.push_back(numbers(gates * n * inputs(), 1 / std::sqrt((float)inputs())));
            w_hh.push_back(numbers(gates * n * n, 1 / std::sqrt((float)n)));
            b_ih.push_back(numbers(gates * n, 0.3f));
            b_hh.push_back(numbers(gates * n, 0.3f));
        }
        // Ragged: one row has all steps, others have some or none.
        run = std::vector<u32>(rows, steps);
        for (u32 row = 1; row < rows; row++)
            run[row] = (u32)((random_number(0.5f) + 0.5f) * (steps + 1));
    }

    // Random states, (lanes, B, n).
    std::vector<float> states() const {
        std::vector<float> all(lanes * rows * n);
        for (float& x : all) x = random_number(0.9f);
        return all;
    }
    u32 groups() const { return (rows + NB - 1) / NB; }
    u32 blocks() const { return lanes * groups() * (N / UNITS); }
    // Width of H: all directions, or one layer of a stack.
    u32 width() const { return STACKED ? N : lanes * N; }
    bool reverse(u32 lane) const { return !STACKED && lane > 0; }
    bool reads_below(u32 lane) const { return STACKED ? lane > 0 : below > 0; }
    // Width of its input: all directions below.
    u32 inputs() const { return std::max(below, 1u) * n; }
    // The time step that is processed as number `taken`.
    u32 step(u32 lane, u32 taken) const { return reverse(lane) ? steps - 1 - taken : taken; }
    // Row of W in slot `slot` of a unit, or NO_ROW.
    static const u32 NO_ROW = ~0u;
    u32 row_of(u32 slots, u32 slot, u32 unit) const {
        u32 gate = gate_of(slots, slot);
        return gate == NO_GATE ? NO_ROW : gate * n + unit;
    }
};

// Runs a kernel whose threads are independent.
template <class Kernel>
void each(u32 threads, Kernel kernel) {
    blockDim.x = 256;
    for (u32 at = 0; at < (threads + 255) / 256 * 256; at++) {
        blockIdx.x = at / 256, threadIdx.x = at % 256;
        kernel();
    }
}

// Compares a cell's gradients with difference quotients of a h + b state for some a and b.
inline void check_cell() {
    for (u32 round = 0; round < 100; round++) {
        float sums[4], before = random_number(1), a = random_number(1),
                       b = CELL == RNN ? 0 : random_number(1);
        for (float& sum : sums) sum = random_number(1.5f);
        auto value = [&](u32 which, double by) {
            float moved[4] = {sums[0], sums[1], sums[2], sums[3]}, state = before;
            if (which < 4) moved[which] += by;
            else state += by;
            float h = cell_forward(moved, state);
            return (double)a * h + (double)b * state;
        };
        float d[4] = {sums[0], sums[1], sums[2], sums[3]}, state = before, d_state = b;
        cell_forward(d, state);
        cell_backward(d, a, d_state, state, before);
        for (u32 which = 0; which < 5; which++) {
            const double by = 1e-2, expected = (value(which, by) - value(which, -by)) / (2 * by);
            if (std::fabs((which < 4 ? d[which] : d_state) - expected) > 1e-3)
                fail("a cell's gradient is wrong");
        }
    }
}

inline int verdict(const char* what, float worst, float largest) {
    printf("%s: %.1e apart of %.1e\n", what, worst, largest);
    return worst <= 1e-3f * std::max(largest, 1.0f) ? 0 : 1; // f16
}
