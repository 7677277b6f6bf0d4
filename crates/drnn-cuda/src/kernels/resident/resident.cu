// LSTMs of up to 128 units: a block takes some rows of the batch through all steps, alone, with the recurrent weights in its
// registers. Rows do not depend on each other, so blocks never wait for each other.
//
//   forward     gates (16 rows, 8 units) += h' (16, n) W_hh^T            a warp per 8 units, all four gates
//   backward    dh'   (16 rows, 8 units)  = dgates (16, 4n) W_hh         likewise
//
// Factors are f16, sums, gates and cell states f32. What goes in and comes out is what the step-by-step kernels of cells.cu
// have: gates (S, B, 4n), c (S + 2, B, n), h (S + 2, B, stride).
//
// GROUPS: warps, 8 units each. A block has 16 rows; a thread has rows g and g + 8, units 2q and 2q + 1 of its warp's, where
// g = lane / 4 and q = lane % 4: how `mma` hands out its results. Value e of four: row g + 8 (e / 2), unit 2q + e % 2.
//
// That order is no good for device memory, whose 128 bytes should be read at once. So a step's gates come to shared memory in
// whole rows, two steps ahead, and go back so when they are done; c and h leave the same way.

static const u32 UNITS = 8 * GROUPS;                    // with those that are not there
static const u32 DEPTH = (UNITS + 15) / 16;             // products forward: 16 units of h' each
static const u32 ROWS = 16;
static const u32 H_STRIDE = 16 * DEPTH + 8;             // 8 more: rows of 16 bytes fall into different banks
static const u32 BACK_DEPTH = 4 * UNITS / 16;
static const u32 D_STRIDE = 4 * UNITS + 8;

// d (16, 8) += a (16, 16) b (16, 8)
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// a (16, 16) from 16 rows of shared memory; `first` is this lane's row and half of columns
__device__ __forceinline__ void load(u32 (&a)[4], u32 first) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(first)
                 : "memory");
}

// Where the values of a thread lie.
struct Own {
    u32 warp, g, q, first_row;
    __device__ Own() {
        warp = threadIdx.x / 32;
        g = threadIdx.x % 32 / 4;
        q = threadIdx.x % 4;
        first_row = blockIdx.x * ROWS;
    }
    __device__ u32 unit(u32 e) const { return 8 * warp + 2 * q + e % 2; }
    __device__ u32 row(u32 e) const { return g + 8 * (e / 2); } // of the block's
};

// Rows of `width` floats of shared memory, as they lie in device memory but for a gap behind each, which moves rows to other
// banks. `there` rows exist. A float4 where width allows it: always for gates.
struct Rows {
    float* at;
    u32 width, stride, there;
    __device__ Rows(float* at, u32 width, u32 there)
        : at(at), width(width), stride(width + (40 - width % 32) % 32), there(there) {}
    __device__ float& operator()(u32 row, u32 column) const { return at[row * stride + column]; }

    // Begins to bring them; `arrived` waits for all but the latest `later` of those that this thread has begun.
    __device__ void fetch(const float* from) const {
        for (u32 i = threadIdx.x; i < there * (width / 4); i += blockDim.x) {
            u32 row = i / (width / 4), column = 4 * (i % (width / 4));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(at + row * stride + column)),
                         "l"(from + (u64)row * width + column)
                         : "memory");
        }
    }
    // Takes them to rows `far` apart.
    __device__ void store(float* to, u32 far) const {
        for (u32 i = threadIdx.x; i < there * width; i += blockDim.x) {
            u32 row = i / width, column = i % width;
            to[(u64)row * far + column] = at[row * stride + column];
        }
    }
    __device__ void store4(float* to) const {
        for (u32 i = threadIdx.x; i < there * (width / 4); i += blockDim.x) {
            u32 row = i / (width / 4), column = 4 * (i % (width / 4));
            *(float4*)(to + (u64)row * width + column) = *(const float4*)(at + row * stride + column);
        }
    }
};

__device__ __forceinline__ void begun() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int later>
__device__ __forceinline__ void arrived() { asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory"); }

extern "C" __global__ void __launch_bounds__(32 * GROUPS, 1) resident_forward(
    float* gates, const float* w_hh, const float* bias_ih, const float* bias_hh, float* c, float* h, u32 h_stride, const u32* run,
    u32 reverse, u32 steps, u32 rows, u32 n) {
    __shared__ u16 states[2][ROWS][H_STRIDE];
    extern __shared__ __align__(16) float dynamic[];
    Own own;
    const u32 there = min(ROWS, rows - own.first_row);
    const Rows even(dynamic, 4 * n, there), odd(dynamic + ROWS * even.stride, 4 * n, there); // steps take turns
    const Rows cells(odd.at + ROWS * odd.stride, n, there), outs(cells.at + ROWS * cells.stride, n, there);
    for (u32 i = threadIdx.x; i < 2 * ROWS * H_STRIDE; i += blockDim.x) (&states[0][0][0])[i] = 0;

    // W_hh^T: for each gate and 16 units of h', this thread's two pairs
    u32 w[4][DEPTH][2];
    const u32 column = 8 * own.warp + own.g;
#pragma unroll
    for (u32 gate = 0; gate < 4; gate++)
#pragma unroll
        for (u32 depth = 0; depth < DEPTH; depth++)
#pragma unroll
            for (u32 side = 0; side < 2; side++) {
                u32 k = 16 * depth + 8 * side + 2 * own.q;
                const float* from = w_hh + (u64)(gate * n + column) * n + k;
                bool real = column < n;
                w[gate][depth][side] = pack(real && k < n ? from[0] : 0, real && k + 1 < n ? from[1] : 0);
            }
    float bias[4][2], cell[4] = {0, 0, 0, 0};
#pragma unroll
    for (u32 gate = 0; gate < 4; gate++)
#pragma unroll
        for (u32 e = 0; e < 2; e++) {
            u32 at = gate * n + own.unit(e);
            bias[gate][e] = own.unit(e) < n ? bias_ih[at] + bias_hh[at] : 0;
        }
    u32 run_of[2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) run_of[i] = own.row(2 * i) < there ? run[own.first_row + own.row(2 * i)] : 0;
    const u32 lane = threadIdx.x % 32;
    const u32 lane_at = 2 * ((lane % 16) * H_STRIDE + 8 * (lane / 16));
    float* own_gates = gates + (u64)own.first_row * 4 * n;
    const u64 step_of_gates = (u64)rows * 4 * n;

    for (u32 ahead = 0; ahead < 2; ahead++) {
        if (ahead < steps) (ahead == 0 ? even : odd).fetch(own_gates + (reverse ? steps - 1 - ahead : ahead) * step_of_gates);
        begun();
    }
    for (u32 taken = 0; taken < steps; taken++) {
        const u32 s = reverse ? steps - 1 - taken : taken;
        const Rows at_hand = taken % 2 == 0 ? even : odd;
        arrived<1>();
        __syncthreads(); // gates and h' are there
        const u32 from = shared_address(&states[taken % 2][0][0]) + lane_at;
        float sum[4][4];
#pragma unroll
        for (u32 gate = 0; gate < 4; gate++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                sum[gate][e] = own.unit(e) < n && own.row(e) < there ? at_hand(own.row(e), gate * n + own.unit(e)) : 0;
            }
#pragma unroll
        for (u32 depth = 0; depth < DEPTH; depth++) {
            u32 a[4];
            load(a, from + 2 * 16 * depth);
#pragma unroll
            for (u32 gate = 0; gate < 4; gate++) multiply(sum[gate], a, w[gate][depth]);
        }
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            const u32 row = own.row(e), unit = own.unit(e);
            float i = 0, f = 0, g = 0, o = 0, c_new = 0, h_new = 0;
            if (s < run_of[e / 2]) {
                i = fast_sigmoid(sum[0][e] + bias[0][e % 2]);
                f = fast_sigmoid(sum[1][e] + bias[1][e % 2]);
                g = fast_tanh(sum[2][e] + bias[2][e % 2]);
                o = fast_sigmoid(sum[3][e] + bias[3][e % 2]);
                c_new = f * cell[e] + i * g;
                h_new = o * fast_tanh(c_new);
            }
            cell[e] = c_new;
            if (unit < n) {
                states[1 - taken % 2][row][unit] = half(h_new);
                at_hand(row, unit) = i;
                at_hand(row, n + unit) = f;
                at_hand(row, 2 * n + unit) = g;
                at_hand(row, 3 * n + unit) = o;
                cells(row, unit) = c_new;
                outs(row, unit) = h_new;
            }
        }
        __syncthreads(); // all of the step is in shared memory
        at_hand.store4(own_gates + s * step_of_gates);
        cells.store(c + ((u64)(s + 1) * rows + own.first_row) * n, n);
        outs.store(h + ((u64)(s + 1) * rows + own.first_row) * h_stride, h_stride);
        // A thread fetches to where it has just stored from, so nobody else's values are overwritten.
        if (taken + 2 < steps) at_hand.fetch(own_gates + (reverse ? s - 2 : s + 2) * step_of_gates);
        begun();
    }
}

// Gradients are multiplied by one over the header's weight before they are rounded to f16, so that what was divided by the
// number of positions does not vanish; what is too large is cut.
extern "C" __global__ void __launch_bounds__(32 * GROUPS, 1) resident_backward(
    const Header* header, float* gates, const float* w_hh, const float* c, const float* d_above, u32 d_stride, const u32* run,
    u32 reverse, u32 steps, u32 rows, u32 n) {
    __shared__ u16 d_gates[2][ROWS][D_STRIDE];
    extern __shared__ __align__(16) float dynamic[];
    Own own;
    const u32 there = min(ROWS, rows - own.first_row);
    const Rows even(dynamic, 4 * n, there), odd(dynamic + ROWS * even.stride, 4 * n, there); // steps take turns
    for (u32 i = threadIdx.x; i < 2 * ROWS * D_STRIDE; i += blockDim.x) (&d_gates[0][0][0])[i] = 0;
    const float up = 1 / header->weight, down = header->weight;

    // W_hh: for 16 of the 4n gates, this thread's two pairs
    u32 w[BACK_DEPTH][2];
    const u32 column = 8 * own.warp + own.g;
#pragma unroll
    for (u32 depth = 0; depth < BACK_DEPTH; depth++)
#pragma unroll
        for (u32 side = 0; side < 2; side++) {
            u32 k = 16 * depth + 8 * side + 2 * own.q;
            u32 gate = k / UNITS, unit = k % UNITS;
            const float* from = w_hh + (u64)(gate * n + unit) * n + column;
            bool real = column < n;
            w[depth][side] = pack(real && unit < n ? from[0] : 0, real && unit + 1 < n ? from[n] : 0);
        }
    u32 run_of[2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) run_of[i] = own.row(2 * i) < there ? run[own.first_row + own.row(2 * i)] : 0;
    const u32 lane = threadIdx.x % 32;
    const u32 lane_at = 2 * ((lane % 16) * D_STRIDE + 8 * (lane / 16));
    float* own_gates = gates + (u64)own.first_row * 4 * n;
    const u64 step_of_gates = (u64)rows * 4 * n;

    // What comes from above and the cell states, a step ahead in registers: c of a step is c' of the one taken before it.
    auto told_at = [&](u32 s, u32 e) -> float {
        bool real = s < run_of[e / 2] && own.unit(e) < n;
        return real ? d_above[(u64)(s * rows + own.first_row + own.row(e)) * d_stride + own.unit(e)] : 0;
    };
    auto cell_at = [&](u32 step, u32 e) -> float {
        bool real = own.row(e) < there && own.unit(e) < n;
        return real ? c[(u64)(step * rows + own.first_row + own.row(e)) * n + own.unit(e)] : 0;
    };
    float d_cell[4] = {0, 0, 0, 0}, told[4], c_now[4], c_before[4];
    const u32 first = reverse ? 0 : steps - 1;
#pragma unroll
    for (u32 e = 0; e < 4; e++) {
        told[e] = told_at(first, e);
        c_now[e] = cell_at(first + 1, e);
        c_before[e] = cell_at(reverse ? first + 2 : first, e);
    }
    for (u32 ahead = 0; ahead < 2; ahead++) {
        if (ahead < steps) (ahead == 0 ? even : odd).fetch(own_gates + (reverse ? ahead : steps - 1 - ahead) * step_of_gates);
        begun();
    }
    for (u32 taken = 0; taken < steps; taken++) {
        const u32 s = reverse ? taken : steps - 1 - taken;
        const Rows at_hand = taken % 2 == 0 ? even : odd;
        float told_next[4] = {0, 0, 0, 0}, c_next[4] = {0, 0, 0, 0};
        if (taken + 1 < steps) {
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                told_next[e] = told_at(reverse ? s + 1 : s - 1, e);
                c_next[e] = cell_at(reverse ? s + 3 : s - 1, e);
            }
        }
        arrived<1>();
        __syncthreads(); // gates and the gradients of the step behind are there
        const u32 from = shared_address(&d_gates[taken % 2][0][0]) + lane_at;
        float d_h[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}}; // two sums, so that one product need not wait for the other
#pragma unroll
        for (u32 depth = 0; depth < BACK_DEPTH; depth++) {
            u32 a[4];
            load(a, from + 2 * 16 * depth);
            multiply(d_h[depth % 2], a, w[depth]);
        }
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            const u32 row = own.row(e), unit = own.unit(e);
            float d[4] = {0, 0, 0, 0}, dc_before = 0;
            if (s < run_of[e / 2] && unit < n) {
                float i = at_hand(row, unit), f = at_hand(row, n + unit);
                float g = at_hand(row, 2 * n + unit), o = at_hand(row, 3 * n + unit);
                float tanh_c = fast_tanh(c_now[e]);
                float dh = told[e] + (d_h[0][e] + d_h[1][e]) * down;
                float dc = d_cell[e] + dh * o * (1 - tanh_c * tanh_c);
                d[0] = dc * g * i * (1 - i);
                d[1] = dc * c_before[e] * f * (1 - f);
                d[2] = dc * i * (1 - g * g);
                d[3] = dh * tanh_c * o * (1 - o);
                dc_before = dc * f;
            }
            d_cell[e] = dc_before;
            if (unit < n) {
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    at_hand(row, i * n + unit) = d[i];
                    float scaled = d[i] * up;
                    // No number stays none: the comparisons let it through.
                    scaled = scaled > 65504.0f ? 65504.0f : scaled < -65504.0f ? -65504.0f : scaled;
                    d_gates[1 - taken % 2][row][i * UNITS + unit] = half(scaled);
                }
            }
            told[e] = told_next[e];
            c_now[e] = c_before[e];
            c_before[e] = c_next[e];
        }
        __syncthreads(); // all of the step is in shared memory
        at_hand.store4(own_gates + s * step_of_gates);
        if (taken + 2 < steps) at_hand.fetch(own_gates + (reverse ? s + 2 : s - 2) * step_of_gates);
        begun();
    }
}
