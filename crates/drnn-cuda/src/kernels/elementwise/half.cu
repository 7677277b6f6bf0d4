// Conversions between f32 (parameters and batches) and f16 (operands of persistent recurrences and
// of their products).
//
// Units are padded to a multiple of 32: column j of a layer's output, n units per direction,
// becomes (j / n) padded + j % n. Rows of W_ih and W_hh, gate by gate in f32, become unit by unit:
// 4 slots of unit 0, of unit 1, .. Byte k of `slots` is the gate in slot k, byte k of `by_gate` the
// slot of gate k; 0xff means none.

__device__ __forceinline__ u32 byte_of(u32 word, u32 k) { return word >> 8 * k & 0xff; }
static const u32 NO_GATE = 0xff;

// to (padded, per_unit, stride) from (gates n, columns); a thread per value of `to`
extern "C" __global__ void pack_weights(const PackWeights p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.padded * p.per_unit * p.stride) return;
    u32 row = at / p.stride, column = at % p.stride;
    u32 gate = byte_of(p.slots, row % p.per_unit), unit = row / p.per_unit;
    u32 old = column / p.padded_below * p.below + column % p.padded_below;
    bool real =
        gate != NO_GATE && unit < p.n && column % p.padded_below < p.below && old < p.columns;
    p.to[at] = half(real ? p.from[(u64)(gate * p.n + unit) * p.columns + old] : 0);
}

// The inverse layout, for gradients, which also undoes the loss scaling; a thread per value of
// `to`, (gates n, columns)
extern "C" __global__ void unpack_gradient(const UnpackGradient p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.gates * p.n * p.columns) return;
    u32 row = at / p.columns, column = at % p.columns;
    u32 slot = byte_of(p.by_gate, row / p.n), unit = row % p.n;
    p.to[at] = p.from
                   [(u64)(unit * p.per_unit + slot) * p.stride + column / p.below * p.padded_below +
                    column % p.below] *
               p.header->weight;
}

// from (groups, padded, 4), d_bias of a lane, summed over groups to b_ih and b_hh (gates n each)
extern "C" __global__ void unpack_bias(const UnpackBias p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.gates * p.n) return;
    const float* ih = p.from + at % p.n * 4 + byte_of(p.by_gate_ih, at / p.n);
    const float* hh = p.from + at % p.n * 4 + byte_of(p.by_gate_hh, at / p.n);
    float sum_ih = 0, sum_hh = 0;
    for (u32 group = 0; group < p.groups; group++) {
        sum_ih += ih[(u64)group * p.padded * 4];
        sum_hh += hh[(u64)group * p.padded * 4];
    }
    p.b_ih[at] = sum_ih * p.header->weight;
    p.b_hh[at] = sum_hh * p.header->weight;
}

// to (rows, stride) f16 from (rows, columns) f32, zero-padded and clamped to f16's range. With a
// header, values are divided by its weight: this is the loss scaling that keeps gradients from
// underflowing in f16.
extern "C" __global__ void to_half(const ToHalf p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.rows * p.stride) return;
    u32 row = at / p.stride, column = at % p.stride;
    float x = column < p.columns ? p.from[(u64)row * p.columns + column] : 0;
    if (p.header) x /= p.header->weight;
    p.to[at] = half(clamp_to_half(x));
}

// Undoes the loss scaling in place.
extern "C" __global__ void unscale(const Unscale p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < p.count) p.values[at] *= p.header->weight;
}

// For few symbols: table (symbols, padded, 4) f16 = E W_ih^T, of embeddings (symbols, e) and w_ih
// (gates n, e)
extern "C" __global__ void symbol_table(const SymbolTable p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.symbols * p.padded * 4) return;
    u32 gate = byte_of(p.slots, at % 4), unit = at / 4 % p.padded, symbol = at / 4 / p.padded;
    float sum = 0;
    if (unit < p.n && gate != NO_GATE) {
        for (u32 k = 0; k < p.e; k++) {
            sum += p.embeddings[symbol * p.e + k] * p.w_ih[(u64)(gate * p.n + unit) * p.e + k];
        }
    }
    p.table[at] = half(sum);
}

// to (slots, stride): 1 in the symbol's column, where slots = S B
extern "C" __global__ void one_hot(const OneHot p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < p.slots * p.stride) {
        p.to[at] = p.tokens[at / p.stride] == at % p.stride ? 0x3c00 : 0;
    }
}

// Gradient of w_ih (gates n, e) from that of the table, d_table (padded, 4, stride)
extern "C" __global__ void table_to_weights(const TableToWeights p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.gates * p.n * p.e) return;
    u32 row = at / p.e, k = at % p.e;
    const float* d = p.d_table + (u64)(row % p.n * 4 + byte_of(p.by_gate, row / p.n)) * p.stride;
    float sum = 0;
    for (u32 symbol = 0; symbol < p.symbols; symbol++) {
        sum += d[symbol] * p.embeddings[symbol * p.e + k];
    }
    p.d_w_ih[at] = sum * p.header->weight;
}

// Gradient of the embeddings, which the directions share, as partial sums: partial (chunks,
// symbols, e). A block of 8 warps per chunk of rows and dimension; each warp takes every eighth
// row.
extern "C" __global__ void table_to_partials(const TableToPartials p) {
    __shared__ float shared[8][32];
    const u32 k = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (u32 symbol = lane; symbol - lane < p.symbols; symbol += 32) {
        float sum = 0;
        if (symbol < p.symbols) {
#pragma unroll 8
            for (u32 row = blockIdx.x * 8 + warp; row < p.gates * p.n; row += gridDim.x * 8) {
                u32 slot = byte_of(p.by_gate, row / p.n);
                sum += p.d_table[(u64)(row % p.n * 4 + slot) * p.stride + symbol] *
                       p.w_ih[(u64)row * p.e + k];
            }
        }
        shared[warp][lane] = sum;
        __syncthreads();
        if (warp == 0 && symbol < p.symbols) {
            for (u32 other = 1; other < 8; other++) sum += shared[other][lane];
            p.partial[(blockIdx.x * p.symbols + symbol) * p.e + k] = sum;
        }
        __syncthreads();
    }
}

// Sums those over chunks; with `add`, to the gradient that the other direction left there.
extern "C" __global__ void partials_to_embeddings(const PartialsToEmbeddings p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.count) return;
    float sum = 0;
#pragma unroll 16
    for (u32 chunk = 0; chunk < p.chunks; chunk++) sum += p.partial[chunk * p.count + at];
    p.d_embeddings[at] = (p.add ? p.d_embeddings[at] : 0) + sum * p.header->weight;
}

// outputs (positions, m) = from (positions, m), rows `stride` apart, plus bias; zeros after a
// sequence's end, where step + delay >= run[row]
extern "C" __global__ void add_output_bias_padded(const AddOutputBiasPadded p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.positions * p.m) return;
    u32 position = at / p.m, column = at % p.m;
    bool real = position / p.rows + p.delay < p.run[position % p.rows];
    p.outputs[at] = real ? p.from[(u64)position * p.stride + column] + p.bias[column] : 0;
}
