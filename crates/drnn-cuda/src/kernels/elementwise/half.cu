// Between f32, as parameters and batches lie, and f16, as persistent recurrences and their products read them.
//
// Units are padded to a multiple of 32: column j of what a layer gives, n and n, becomes (j / n) padded + j % n. Rows of W_ih and
// W_hh, gate by gate in f32, become unit by unit: 4 slots of unit 0, of unit 1, .. Byte k of `slots` is the gate that slot k has,
// byte k of `by_gate` the slot that gate k has; 0xff none.

__device__ __forceinline__ u32 byte_of(u32 word, u32 k) { return word >> 8 * k & 0xff; }
static const u32 NO_GATE = 0xff;

// to (padded, per unit, stride) from (gates n, columns); a thread per value of `to`
extern "C" __global__ void pack_weights(
    const float* from, u16* to, u32 slots, u32 per_unit, u32 n, u32 padded, u32 columns, u32 below, u32 padded_below, u32 stride) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= padded * per_unit * stride) return;
    u32 row = at / stride, column = at % stride, gate = byte_of(slots, row % per_unit), unit = row / per_unit;
    u32 old = column / padded_below * below + column % padded_below;
    bool real = gate != NO_GATE && unit < n && column % padded_below < below && old < columns;
    to[at] = half(real ? from[(u64)(gate * n + unit) * columns + old] : 0);
}

// The way back for gradients, which were scaled: a thread per value of `to`, (gates n, columns)
extern "C" __global__ void unpack_gradient(
    const Header* header, const float* from, float* to, u32 by_gate, u32 per_unit, u32 gates, u32 n, u32 columns, u32 below,
    u32 padded_below, u32 stride) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= gates * n * columns) return;
    u32 row = at / columns, column = at % columns, slot = byte_of(by_gate, row / n), unit = row % n;
    to[at] = from[(u64)(unit * per_unit + slot) * stride + column / below * padded_below + column % below] * header->weight;
}

// d_bias (groups, padded, 4) to b_ih and b_hh (gates n) each
extern "C" __global__ void unpack_bias(
    const Header* header, const float* from, float* b_ih, float* b_hh, u32 by_gate_ih, u32 by_gate_hh, u32 gates, u32 n, u32 padded,
    u32 groups) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= gates * n) return;
    const float *ih = from + at % n * 4 + byte_of(by_gate_ih, at / n), *hh = from + at % n * 4 + byte_of(by_gate_hh, at / n);
    float sum_ih = 0, sum_hh = 0;
    for (u32 group = 0; group < groups; group++) {
        sum_ih += ih[(u64)group * padded * 4];
        sum_hh += hh[(u64)group * padded * 4];
    }
    b_ih[at] = sum_ih * header->weight;
    b_hh[at] = sum_hh * header->weight;
}

// to (rows, stride) f16 from (rows, columns) f32; with a header, scaled by one over its weight, and bounded
extern "C" __global__ void halve(const Header* header, const float* from, u16* to, u32 rows, u32 columns, u32 stride) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= rows * stride) return;
    u32 row = at / stride, column = at % stride;
    float x = column < columns ? from[(u64)row * columns + column] : 0;
    if (header) x /= header->weight;
    to[at] = half(bounded(x));
}

// Undoes that.
extern "C" __global__ void scale_back(const Header* header, float* values, u32 count) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) values[at] *= header->weight;
}

// Few symbols: table (symbols, padded, 4) f16 = E W_ih^T, for embeddings (symbols, e) and w_ih (gates n, e)
extern "C" __global__ void symbol_table(
    const float* embeddings, const float* w_ih, u16* table, u32 slots, u32 symbols, u32 e, u32 n, u32 padded) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= symbols * padded * 4) return;
    u32 gate = byte_of(slots, at % 4), unit = at / 4 % padded, symbol = at / 4 / padded;
    float sum = 0;
    if (unit < n && gate != NO_GATE) {
        for (u32 k = 0; k < e; k++) sum += embeddings[symbol * e + k] * w_ih[(u64)(gate * n + unit) * e + k];
    }
    table[at] = half(sum);
}

// to (slots, stride): 1 in the symbol's column
extern "C" __global__ void one_hot(const u32* tokens, u16* to, u32 slots, u32 stride) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < slots * stride) to[at] = tokens[at / stride] == at % stride ? 0x3c00 : 0;
}

// d_table (padded, 4, stride) to the gradient of w_ih (gates n, e)
extern "C" __global__ void table_to_weights(
    const Header* header, const float* d_table, const float* embeddings, float* d_w_ih, u32 by_gate, u32 gates, u32 symbols, u32 e,
    u32 n, u32 stride) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= gates * n * e) return;
    u32 row = at / e, k = at % e;
    const float* d = d_table + (u64)(row % n * 4 + byte_of(by_gate, row / n)) * stride;
    float sum = 0;
    for (u32 symbol = 0; symbol < symbols; symbol++) sum += d[symbol] * embeddings[symbol * e + k];
    d_w_ih[at] = sum * header->weight;
}

// And to that of the embeddings, which the directions share: partial (strands, symbols, e), a block of 8 warps per strand and
// dimension, each of them every eighth of the strand's rows
extern "C" __global__ void table_to_strands(
    const float* d_table, const float* w_ih, float* partial, u32 by_gate, u32 gates, u32 symbols, u32 e, u32 n, u32 stride) {
    __shared__ float shared[8][32];
    const u32 k = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (u32 symbol = lane; symbol - lane < symbols; symbol += 32) {
        float sum = 0;
        if (symbol < symbols) {
#pragma unroll 8
            for (u32 row = blockIdx.x * 8 + warp; row < gates * n; row += gridDim.x * 8) {
                u32 slot = byte_of(by_gate, row / n);
                sum += d_table[(u64)(row % n * 4 + slot) * stride + symbol] * w_ih[(u64)row * e + k];
            }
        }
        shared[warp][lane] = sum;
        __syncthreads();
        if (warp == 0 && symbol < symbols) {
            for (u32 other = 1; other < 8; other++) sum += shared[other][lane];
            partial[(blockIdx.x * symbols + symbol) * e + k] = sum;
        }
        __syncthreads();
    }
}

// The strands' sum; `add` to what another direction left there.
extern "C" __global__ void strands_to_embeddings(
    const Header* header, const float* partial, float* d_embeddings, u32 count, u32 strands, u32 add) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    float sum = 0;
#pragma unroll 16
    for (u32 strand = 0; strand < strands; strand++) sum += partial[strand * count + at];
    d_embeddings[at] = (add ? d_embeddings[at] : 0) + sum * header->weight;
}

// answers (positions, m) with bias from (positions, stride) without; zeros behind an end, where step + delay >= run[row]
extern "C" __global__ void answer_padded(
    const float* from, float* answers, const float* bias, const u32* run, u32 delay, u32 rows, u32 positions, u32 m, u32 stride) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= positions * m) return;
    u32 position = at / m, column = at % m;
    bool real = position / rows + delay < run[position % rows];
    answers[at] = real ? from[(u64)position * stride + column] + bias[column] : 0;
}
