// LSTMs of up to 128 units: a block takes some rows of the batch through all steps, alone, with the recurrent weights in its
// registers. Rows do not depend on each other, so blocks never wait for each other.
//
//   forward     gates (16 rows, 8 units) += h' (16, n) W_hh^T            a warp per 8 units, all four gates
//   backward    dh'   (16 rows, 8 units)  = dgates (16, 4n) W_hh         likewise
//
// Factors are f16, sums, gates and cell states f32. What goes in and comes out is what the step-by-step kernels of cells.cu
// have: gates (S, B, 4n), c (S + 2, B, n), h (S + 2, B, stride).
//
// GROUPS: warps, 8 units each. TILES: 16 rows each. In a tile a thread has rows g and g + 8, units 2q and 2q + 1, where
// g = lane / 4 and q = lane % 4: how `mma` hands out its results. Value e of four: row g + 8 (e / 2), unit 2q + e % 2.

typedef unsigned short u16;

static const u32 UNITS = 8 * GROUPS;                    // with those that are not there
static const u32 DEPTH = (UNITS + 15) / 16;             // products forward: 16 units of h' each
static const u32 ROWS = 16 * TILES;
static const u32 H_STRIDE = 16 * DEPTH + 8;             // 8 more: rows of 16 bytes fall into different banks
static const u32 BACK_DEPTH = 4 * UNITS / 16;
static const u32 D_STRIDE = 4 * UNITS + 8;

__device__ __forceinline__ u32 pack(float low, float high) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ __forceinline__ u16 half(float x) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

__device__ __forceinline__ float fast_tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float fast_sigmoid(float x) { return 0.5f * fast_tanh(0.5f * x) + 0.5f; }

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

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

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
    __device__ u32 local(u32 tile, u32 e) const { return 16 * tile + g + 8 * (e / 2); }
    __device__ u32 row(u32 tile, u32 e) const { return first_row + local(tile, e); }
};

extern "C" __global__ void __launch_bounds__(32 * GROUPS, 1) resident_forward(
    float* gates, const float* w_hh, const float* bias_ih, const float* bias_hh, float* c, float* h, u32 h_stride, const u32* run,
    u32 reverse, u32 steps, u32 rows, u32 n) {
    __shared__ u16 states[2][ROWS][H_STRIDE];
    Own own;
    for (u32 i = threadIdx.x; i < 2 * ROWS * H_STRIDE; i += blockDim.x) (&states[0][0][0])[i] = 0;

    // W_hh^T: for each gate and 16 units of h', this thread's two pairs
    u32 w[4][DEPTH][2];
    const u32 column = 8 * own.warp + own.g;
#pragma unroll
    for (u32 gate = 0; gate < 4; gate++)
#pragma unroll
        for (u32 depth = 0; depth < DEPTH; depth++)
#pragma unroll
            for (u32 half_of = 0; half_of < 2; half_of++) {
                u32 k = 16 * depth + 8 * half_of + 2 * own.q;
                const float* from = w_hh + (u64)(gate * n + column) * n + k;
                bool there = column < n;
                w[gate][depth][half_of] = pack(there && k < n ? from[0] : 0, there && k + 1 < n ? from[1] : 0);
            }
    float bias[4][2];
#pragma unroll
    for (u32 gate = 0; gate < 4; gate++)
#pragma unroll
        for (u32 e = 0; e < 2; e++) {
            u32 at = gate * n + own.unit(e);
            bias[gate][e] = own.unit(e) < n ? bias_ih[at] + bias_hh[at] : 0;
        }
    float cell[TILES][4];
    u32 run_of[TILES][2];
#pragma unroll
    for (u32 tile = 0; tile < TILES; tile++)
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            cell[tile][e] = 0;
            run_of[tile][e / 2] = own.row(tile, e) < rows ? run[own.row(tile, e)] : 0;
        }
    const u32 lane = threadIdx.x % 32;
    const u32 lane_at = 2 * ((lane % 16) * H_STRIDE + 8 * (lane / 16));
    __syncthreads();

    for (u32 taken = 0; taken < steps; taken++) {
        const u32 s = reverse ? steps - 1 - taken : taken;
        const u32 from = shared_address(&states[taken % 2][0][0]) + lane_at;
#pragma unroll
        for (u32 tile = 0; tile < TILES; tile++) {
            float sum[4][4];
#pragma unroll
            for (u32 gate = 0; gate < 4; gate++)
#pragma unroll
                for (u32 e = 0; e < 4; e++) {
                    bool there = s < run_of[tile][e / 2] && own.unit(e) < n;
                    u64 at = (u64)(s * rows + own.row(tile, e)) * 4 * n + gate * n + own.unit(e);
                    sum[gate][e] = there ? gates[at] : 0;
                }
#pragma unroll
            for (u32 depth = 0; depth < DEPTH; depth++) {
                u32 a[4];
                load(a, from + 2 * (16 * tile * H_STRIDE + 16 * depth));
#pragma unroll
                for (u32 gate = 0; gate < 4; gate++) multiply(sum[gate], a, w[gate][depth]);
            }
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                const u32 row = own.row(tile, e), unit = own.unit(e);
                float i = 0, f = 0, g = 0, o = 0, c_new = 0, h_new = 0;
                if (s < run_of[tile][e / 2]) {
                    i = fast_sigmoid(sum[0][e] + bias[0][e % 2]);
                    f = fast_sigmoid(sum[1][e] + bias[1][e % 2]);
                    g = fast_tanh(sum[2][e] + bias[2][e % 2]);
                    o = fast_sigmoid(sum[3][e] + bias[3][e % 2]);
                    c_new = f * cell[tile][e] + i * g;
                    h_new = o * fast_tanh(c_new);
                }
                cell[tile][e] = c_new;
                if (unit < n) states[1 - taken % 2][own.local(tile, e)][unit] = half(h_new);
                if (unit < n && row < rows) {
                    float* to = gates + (u64)(s * rows + row) * 4 * n + unit;
                    to[0] = i;
                    to[n] = f;
                    to[2 * n] = g;
                    to[3 * n] = o;
                    c[(u64)((s + 1) * rows + row) * n + unit] = c_new;
                    h[(u64)((s + 1) * rows + row) * h_stride + unit] = h_new;
                }
            }
        }
        __syncthreads();
    }
}

// Gradients are multiplied by one over the header's weight before they are rounded to f16, so that what was divided by the
// number of positions does not vanish; what is too large is cut.
extern "C" __global__ void __launch_bounds__(32 * GROUPS, 1) resident_backward(
    const Header* header, float* gates, const float* w_hh, const float* c, const float* d_above, u32 d_stride, const u32* run,
    u32 reverse, u32 steps, u32 rows, u32 n) {
    __shared__ u16 d_gates[2][ROWS][D_STRIDE];
    Own own;
    for (u32 i = threadIdx.x; i < 2 * ROWS * D_STRIDE; i += blockDim.x) (&d_gates[0][0][0])[i] = 0;
    const float up = 1 / header->weight, down = header->weight;

    // W_hh: for 16 of the 4n gates, this thread's two pairs
    u32 w[BACK_DEPTH][2];
    const u32 column = 8 * own.warp + own.g;
#pragma unroll
    for (u32 depth = 0; depth < BACK_DEPTH; depth++)
#pragma unroll
        for (u32 half_of = 0; half_of < 2; half_of++) {
            u32 k = 16 * depth + 8 * half_of + 2 * own.q;
            u32 gate = k / UNITS, unit = k % UNITS;
            const float* from = w_hh + (u64)(gate * n + unit) * n + column;
            bool there = column < n;
            w[depth][half_of] = pack(there && unit < n ? from[0] : 0, there && unit + 1 < n ? from[n] : 0);
        }
    float d_cell[TILES][4];
    u32 run_of[TILES][2];
#pragma unroll
    for (u32 tile = 0; tile < TILES; tile++)
#pragma unroll
        for (u32 e = 0; e < 4; e++) {
            d_cell[tile][e] = 0;
            run_of[tile][e / 2] = own.row(tile, e) < rows ? run[own.row(tile, e)] : 0;
        }
    const u32 lane = threadIdx.x % 32;
    const u32 lane_at = 2 * ((lane % 16) * D_STRIDE + 8 * (lane / 16));
    __syncthreads();

    for (u32 taken = 0; taken < steps; taken++) {
        const u32 s = reverse ? taken : steps - 1 - taken;
        const u32 before = reverse ? s + 2 : s;
        const u32 from = shared_address(&d_gates[taken % 2][0][0]) + lane_at;
#pragma unroll
        for (u32 tile = 0; tile < TILES; tile++) {
            float d_h[4] = {0, 0, 0, 0};
            float gate[4][4], told[4], c_now[4], c_before[4];
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                const u32 row = own.row(tile, e), unit = own.unit(e);
                bool there = s < run_of[tile][e / 2] && unit < n;
                const float* at = gates + (u64)(s * rows + row) * 4 * n + unit;
#pragma unroll
                for (u32 i = 0; i < 4; i++) gate[i][e] = there ? at[i * n] : 0;
                told[e] = there ? d_above[(u64)(s * rows + row) * d_stride + unit] : 0;
                c_now[e] = there ? c[(u64)((s + 1) * rows + row) * n + unit] : 0;
                c_before[e] = there ? c[(u64)(before * rows + row) * n + unit] : 0;
            }
#pragma unroll
            for (u32 depth = 0; depth < BACK_DEPTH; depth++) {
                u32 a[4];
                load(a, from + 2 * (16 * tile * D_STRIDE + 16 * depth));
                multiply(d_h, a, w[depth]);
            }
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                const u32 row = own.row(tile, e), unit = own.unit(e);
                float d[4] = {0, 0, 0, 0}, dc_before = 0;
                if (s < run_of[tile][e / 2]) {
                    float i = gate[0][e], f = gate[1][e], g = gate[2][e], o = gate[3][e];
                    float tanh_c = fast_tanh(c_now[e]);
                    float dh = told[e] + d_h[e] * down;
                    float dc = d_cell[tile][e] + dh * o * (1 - tanh_c * tanh_c);
                    d[0] = dc * g * i * (1 - i);
                    d[1] = dc * c_before[e] * f * (1 - f);
                    d[2] = dc * i * (1 - g * g);
                    d[3] = dh * tanh_c * o * (1 - o);
                    dc_before = dc * f;
                }
                d_cell[tile][e] = dc_before;
                if (unit < n) {
#pragma unroll
                    for (u32 i = 0; i < 4; i++) {
                        float scaled = d[i] * up;
                        // No number stays none: the comparisons let it through.
                        scaled = scaled > 65504.0f ? 65504.0f : scaled < -65504.0f ? -65504.0f : scaled;
                        d_gates[1 - taken % 2][own.local(tile, e)][i * UNITS + unit] = half(scaled);
                    }
                }
                if (unit < n && row < rows) {
                    float* to = gates + (u64)(s * rows + row) * 4 * n + unit;
#pragma unroll
                    for (u32 i = 0; i < 4; i++) to[i * n] = d[i];
                }
            }
        }
        __syncthreads();
    }
}
