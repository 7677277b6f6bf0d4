// LSTMs of up to 128 units: a block takes 16 rows of the batch through all steps, with the
// recurrent weights in its registers. Rows are independent, so blocks never synchronise with each
// other.
//
//   forward     gates (16 rows, 8 units) += h' (16, n) W_hh^T            a warp per 8 units, 4
//   gates backward    dh'   (16 rows, 8 units)  = dgates (16, 4n) W_hh         likewise
//
// Operands are f16; sums, gates and cell states f32. Inputs and outputs have the layout of
// cells.cu: gates (S, B, 4n), c (S + 2, B, n), h (S + 2, B, stride).
//
// WARPS: warps of a block, 8 units each. A thread has rows g and g + 8, units 2q and 2q + 1 of its
// warp's, where g = lane / 4 and q = lane % 4: the accumulator layout of `mma`. Value e of its
// four: row g + 8 (e / 2), unit 2q + e % 2.
//
// That layout does not coalesce. So a step's gates are prefetched to shared memory in whole rows,
// two steps ahead (double buffer), and written back in whole rows when the step is done; c and h
// are written the same way.

static const u32 UNITS = 8 * WARPS;           // with padding
static const u32 K_STEPS = (UNITS + 15) / 16; // forward: 16 units of h' each
static const u32 ROWS = 16;
static const u32 H_STRIDE = 16 * K_STEPS + 8; // 8 more: ldmatrix rows fall into distinct banks
static const u32 BACKWARD_K_STEPS = 4 * UNITS / 16;
static const u32 D_STRIDE = 4 * UNITS + 8;

// The thread's part of a (16 rows, 8 units) accumulator.
struct Fragment {
    u32 warp, g, q, first_row;
    __device__ Fragment() {
        warp = threadIdx.x / 32;
        g = threadIdx.x % 32 / 4;
        q = threadIdx.x % 4;
        first_row = blockIdx.x * ROWS;
    }
    __device__ u32 unit(u32 e) const { return 8 * warp + 2 * q + e % 2; }
    __device__ u32 row(u32 e) const { return g + 8 * (e / 2); } // within the block
};

// A staging buffer in shared memory: rows of `width` floats in the order of device memory, each
// followed by a gap that spreads rows over banks. `count` rows exist. Rows of gates are multiples
// of 16 bytes, as `prefetch` and `store4` need.
struct RowBuffer {
    float* at;
    u32 width, stride, count;
    __device__ RowBuffer(float* at, u32 width, u32 count)
        : at(at), width(width), stride(width + (40 - width % 32) % 32), count(count) {}
    __device__ float& operator()(u32 row, u32 column) const { return at[row * stride + column]; }

    // Starts asynchronous copies of all rows from device memory; `cp_async_wait` waits for them.
    __device__ void prefetch(const float* from) const {
        for (u32 i = threadIdx.x; i < count * (width / 4); i += blockDim.x) {
            u32 row = i / (width / 4), column = 4 * (i % (width / 4));
            cp_async<16>(at + row * stride + column, from + (u64)row * width + column);
        }
    }
    // Writes all rows to device memory, `to_stride` floats apart.
    __device__ void store(float* to, u32 to_stride) const {
        for (u32 i = threadIdx.x; i < count * width; i += blockDim.x) {
            u32 row = i / width, column = i % width;
            to[(u64)row * to_stride + column] = at[row * stride + column];
        }
    }
    __device__ void store4(float* to) const {
        for (u32 i = threadIdx.x; i < count * (width / 4); i += blockDim.x) {
            u32 row = i / (width / 4), column = 4 * (i % (width / 4));
            *(float4*)(to + (u64)row * width + column) =
                *(const float4*)(at + row * stride + column);
        }
    }
};

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
resident_forward(const __grid_constant__ ResidentForward p) {
    __shared__ u16 states[2][ROWS][H_STRIDE];
    float* const dynamic = (float*)dynamic_shared();
    const u32 n = p.n, rows = p.rows, steps = p.steps;
    Fragment own;
    const u32 count = min(ROWS, rows - own.first_row);
    const RowBuffer even(dynamic, 4 * n, count), odd(dynamic + ROWS * even.stride, 4 * n, count);
    const RowBuffer cells(odd.at + ROWS * odd.stride, n, count);
    const RowBuffer outs(cells.at + ROWS * cells.stride, n, count);
    for (u32 i = threadIdx.x; i < 2 * ROWS * H_STRIDE; i += blockDim.x) (&states[0][0][0])[i] = 0;

    // B fragments of W_hh^T: for each gate and k-step, this thread's two pairs.
    u32 w[4][K_STEPS][2];
    const u32 column = 8 * own.warp + own.g;
#pragma unroll
    for (u32 gate = 0; gate < 4; gate++)
#pragma unroll
        for (u32 k_step = 0; k_step < K_STEPS; k_step++)
#pragma unroll
            for (u32 side = 0; side < 2; side++) {
                u32 k = 16 * k_step + 8 * side + 2 * own.q;
                const float* from = p.w_hh + (u64)(gate * n + column) * n + k;
                bool real = column < n;
                w[gate][k_step][side] =
                    pack(real && k < n ? from[0] : 0, real && k + 1 < n ? from[1] : 0);
            }
    float bias[4][2], cell[4] = {0, 0, 0, 0};
#pragma unroll
    for (u32 gate = 0; gate < 4; gate++)
#pragma unroll
        for (u32 e = 0; e < 2; e++) {
            u32 at = gate * n + own.unit(e);
            bias[gate][e] = own.unit(e) < n ? p.bias_ih[at] + p.bias_hh[at] : 0;
        }
    u32 run_of[2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        run_of[i] = own.row(2 * i) < count ? p.run[own.first_row + own.row(2 * i)] : 0;
    }
    const u32 lane = threadIdx.x % 32;
    const u32 lane_at = 2 * ((lane % 16) * H_STRIDE + 8 * (lane / 16));
    float* own_gates = p.gates + (u64)own.first_row * 4 * n;
    const u64 step_stride = (u64)rows * 4 * n;

    for (u32 ahead = 0; ahead < 2; ahead++) {
        if (ahead < steps) {
            (ahead == 0 ? even : odd)
                .prefetch(own_gates + (p.reverse ? steps - 1 - ahead : ahead) * step_stride);
        }
        cp_async_commit();
    }
    // t counts steps in processing order; s is the time step.
    for (u32 t = 0; t < steps; t++) {
        const u32 s = p.reverse ? steps - 1 - t : t;
        const RowBuffer gates_now = t % 2 == 0 ? even : odd;
        cp_async_wait<1>();
        __syncthreads(); // this step's gates and h' are in shared memory
        const u32 from = shared_address(&states[t % 2][0][0]) + lane_at;
        float sum[4][4];
#pragma unroll
        for (u32 gate = 0; gate < 4; gate++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                sum[gate][e] = own.unit(e) < n && own.row(e) < count
                                   ? gates_now(own.row(e), gate * n + own.unit(e))
                                   : 0;
            }
#pragma unroll
        for (u32 k_step = 0; k_step < K_STEPS; k_step++) {
            u32 a[4];
            ldmatrix(a[0], a[1], a[2], a[3], from + 2 * 16 * k_step);
#pragma unroll
            for (u32 gate = 0; gate < 4; gate++) mma(sum[gate], a, w[gate][k_step]);
        }
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            const u32 row = own.row(e), unit = own.unit(e);
            LstmGates gates = {0, 0, 0, 0};
            float c = 0, h = 0;
            if (s < run_of[e / 2]) {
                gates = {
                    sum[0][e] + bias[0][e % 2], sum[1][e] + bias[1][e % 2],
                    sum[2][e] + bias[2][e % 2], sum[3][e] + bias[3][e % 2]};
                c = cell[e];
                h = lstm_cell_forward<FastActivation>(gates, c);
            }
            cell[e] = c;
            if (unit < n) {
                states[1 - t % 2][row][unit] = half(h);
                gates_now(row, unit) = gates.i;
                gates_now(row, n + unit) = gates.f;
                gates_now(row, 2 * n + unit) = gates.g;
                gates_now(row, 3 * n + unit) = gates.o;
                cells(row, unit) = c;
                outs(row, unit) = h;
            }
        }
        __syncthreads(); // the step's results are in shared memory
        gates_now.store4(own_gates + s * step_stride);
        cells.store(p.c + ((u64)(s + 1) * rows + own.first_row) * n, n);
        outs.store(p.h + ((u64)(s + 1) * rows + own.first_row) * p.h_stride, p.h_stride);
        // A thread prefetches into exactly the elements that it has just stored, so no barrier is
        // needed in between.
        if (t + 2 < steps)
            gates_now.prefetch(own_gates + (p.reverse ? s - 2 : s + 2) * step_stride);
        cp_async_commit();
    }
}

// Loss scaling: gradients are multiplied by 1 / header->weight before they are rounded to f16, so
// that the division by the number of positions does not make them underflow. Overflows are clamped.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
resident_backward(const __grid_constant__ ResidentBackward p) {
    __shared__ u16 d_gates[2][ROWS][D_STRIDE];
    float* const dynamic = (float*)dynamic_shared();
    const u32 n = p.n, rows = p.rows, steps = p.steps;
    Fragment own;
    const u32 count = min(ROWS, rows - own.first_row);
    const RowBuffer even(dynamic, 4 * n, count), odd(dynamic + ROWS * even.stride, 4 * n, count);
    for (u32 i = threadIdx.x; i < 2 * ROWS * D_STRIDE; i += blockDim.x) (&d_gates[0][0][0])[i] = 0;
    const float up = 1 / p.header->weight, down = p.header->weight;

    // B fragments of W_hh: for each k-step over the 4n gates, this thread's two pairs.
    u32 w[BACKWARD_K_STEPS][2];
    const u32 column = 8 * own.warp + own.g;
#pragma unroll
    for (u32 k_step = 0; k_step < BACKWARD_K_STEPS; k_step++)
#pragma unroll
        for (u32 side = 0; side < 2; side++) {
            u32 k = 16 * k_step + 8 * side + 2 * own.q;
            u32 gate = k / UNITS, unit = k % UNITS;
            const float* from = p.w_hh + (u64)(gate * n + unit) * n + column;
            bool real = column < n;
            w[k_step][side] =
                pack(real && unit < n ? from[0] : 0, real && unit + 1 < n ? from[n] : 0);
        }
    u32 run_of[2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        run_of[i] = own.row(2 * i) < count ? p.run[own.first_row + own.row(2 * i)] : 0;
    }
    const u32 lane = threadIdx.x % 32;
    const u32 lane_at = 2 * ((lane % 16) * D_STRIDE + 8 * (lane / 16));
    float* own_gates = p.gates + (u64)own.first_row * 4 * n;
    const u64 step_stride = (u64)rows * 4 * n;

    // The gradient from above and the cell states are prefetched one step ahead, in registers: c of
    // a step is the c_before of the step processed before it.
    auto d_above_at = [&](u32 s, u32 e) -> float {
        bool real = s < run_of[e / 2] && own.unit(e) < n;
        return real ? p.d_above
                          [(u64)(s * rows + own.first_row + own.row(e)) * p.d_stride + own.unit(e)]
                    : 0;
    };
    auto cell_at = [&](u32 step, u32 e) -> float {
        bool real = own.row(e) < count && own.unit(e) < n;
        return real ? p.c[(u64)(step * rows + own.first_row + own.row(e)) * n + own.unit(e)] : 0;
    };
    float d_cell[4] = {0, 0, 0, 0}, d_above[4], c_now[4], c_before[4];
    const u32 first = p.reverse ? 0 : steps - 1;
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
        d_above[e] = d_above_at(first, e);
        c_now[e] = cell_at(first + 1, e);
        c_before[e] = cell_at(p.reverse ? first + 2 : first, e);
    }
    for (u32 ahead = 0; ahead < 2; ahead++) {
        if (ahead < steps) {
            (ahead == 0 ? even : odd)
                .prefetch(own_gates + (p.reverse ? ahead : steps - 1 - ahead) * step_stride);
        }
        cp_async_commit();
    }
    for (u32 t = 0; t < steps; t++) {
        const u32 s = p.reverse ? t : steps - 1 - t;
        const RowBuffer gates_now = t % 2 == 0 ? even : odd;
        float d_above_next[4] = {0, 0, 0, 0}, c_next[4] = {0, 0, 0, 0};
        if (t + 1 < steps) {
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                d_above_next[e] = d_above_at(p.reverse ? s + 1 : s - 1, e);
                c_next[e] = cell_at(p.reverse ? s + 3 : s - 1, e);
            }
        }
        cp_async_wait<1>();
        __syncthreads(); // this step's gates and the last step's gradients are in shared memory
        const u32 from = shared_address(&d_gates[t % 2][0][0]) + lane_at;
        float d_h[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}}; // two chains of dependent products
#pragma unroll
        for (u32 k_step = 0; k_step < BACKWARD_K_STEPS; k_step++) {
            u32 a[4];
            ldmatrix(a[0], a[1], a[2], a[3], from + 2 * 16 * k_step);
            mma(d_h[k_step % 2], a, w[k_step]);
        }
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            const u32 row = own.row(e), unit = own.unit(e);
            float d[4] = {0, 0, 0, 0}, dc_before = 0;
            if (s < run_of[e / 2] && unit < n) {
                const LstmGates gates = {
                    gates_now(row, unit), gates_now(row, n + unit), gates_now(row, 2 * n + unit),
                    gates_now(row, 3 * n + unit)};
                const float dh = d_above[e] + (d_h[0][e] + d_h[1][e]) * down;
                dc_before = d_cell[e];
                const LstmGates grads =
                    lstm_cell_backward<FastActivation>(gates, dh, dc_before, c_now[e], c_before[e]);
                d[0] = grads.i, d[1] = grads.f, d[2] = grads.g, d[3] = grads.o;
            }
            d_cell[e] = dc_before;
            if (unit < n) {
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    gates_now(row, i * n + unit) = d[i];
                    d_gates[1 - t % 2][row][i * UNITS + unit] = half(clamp_to_half(d[i] * up));
                }
            }
            d_above[e] = d_above_next[e];
            c_now[e] = c_before[e];
            c_before[e] = c_next[e];
        }
        __syncthreads(); // the step's results are in shared memory
        gates_now.store4(own_gates + s * step_stride);
        if (t + 2 < steps)
            gates_now.prefetch(own_gates + (p.reverse ? s + 2 : s - 2) * step_stride);
        cp_async_commit();
    }
}
