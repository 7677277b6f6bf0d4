// Steps of a recurrence whose products with W_hh are GEMMs, in the arrays of forward.cu and
// backward.cu: for layers and batches that are faster so.
//
//   forward, step s     sums = h_{s-1} W_hh^T        a GEMM
//                       slots = x_s W_ih^T + b + sums, and the cell: `slots_forward`
//   backward, step s    dslots from dh and the saved slots: `slots_backward`
//                       d_h = dslots W_hh            a GEMM
//
// A thread has two units of a row of the batch. Sequences may begin with given states, in both
// directions, as in forward.cu and backward.cu.

struct Two {
    u32 row, unit; // the first of two
    bool exists;
    __device__ Two(u32 rows, u32 padded) {
        const u32 at = blockIdx.x * blockDim.x + threadIdx.x;
        row = at / (padded / 2), unit = at % (padded / 2) * 2, exists = row < rows;
    }
};

extern "C" __global__ void slots_forward(const SlotsForward p) {
    const Two own(p.rows, p.padded);
    if (!own.exists) return;
    const u64 at = (u64)own.row * p.padded + own.unit, in_h = (u64)own.row * p.width + own.unit;
    const bool running = p.step < p.run[own.row];
    const u32 symbol = p.tokens ? p.tokens[own.row] : NONE;
    uint4 x = make_uint4(0, 0, 0, 0); // slots of both units
    if (!p.tokens) x = *(const uint4*)(p.gates + at * 4);
    else if (symbol < p.symbols)
        x = *(const uint4*)(p.table + ((u64)symbol * p.padded + own.unit) * 4);
    const u32 words[2][2] = {{x.x, x.y}, {x.z, x.w}};
    float h[2], state[2];
    u32 saved[2][2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        const u32 unit = own.unit + i;
        const float4 bias = ((const float4*)p.bias)[unit];
        float4 sums = make_float4(0, 0, 0, 0);
        if (p.sums) sums = ((const float4*)p.sums)[at + i];
        float slots[4] = {
            low(words[i][0]) + bias.x + sums.x, high(words[i][0]) + bias.y + sums.y,
            low(words[i][1]) + bias.z + sums.z, high(words[i][1]) + bias.w + sums.w};
        float before = p.begins ? 0 : p.state[at + i];
        if (p.begins && p.first && unit < p.n) before = p.first[(u64)own.row * p.n + unit];
        state[i] = before;
        h[i] = cell_forward(slots, state[i]);
        if (!running) {
            slots[0] = slots[1] = slots[2] = slots[3] = h[i] = 0;
            // First states wait for a row that begins later.
            state[i] = p.from_states ? before : 0;
        }
        p.state[at + i] = state[i];
        if (p.last && unit < p.n) p.last[(u64)own.row * p.n + unit] = state[i];
        saved[i][0] = pack(slots[0], slots[1]), saved[i][1] = pack(slots[2], slots[3]);
    }
    const bool waits = !running && p.from_states && p.reverse;
    *(u32*)(p.h + in_h) = waits ? *(const u32*)(p.h_before + in_h) : pack(h[0], h[1]);
    if (!p.save) return;
    *(u32*)(p.c + at) = pack(state[0], state[1]);
    *(uint4*)(p.gates + at * 4) = make_uint4(saved[0][0], saved[0][1], saved[1][0], saved[1][1]);
}

extern "C" __global__ void slots_backward(const SlotsBackward p) {
    const Two own(p.rows, p.padded);
    if (!own.exists) return;
    const u64 at = (u64)own.row * p.padded + own.unit;
    const u32 length = p.run[own.row];
    const bool running = p.step < length;
    const float scale = p.header->weight;
    // What stands after a sequence's end is not read.
    uint4 saved = make_uint4(0, 0, 0, 0);
    u32 now = 0, before = 0, above = 0;
    if (length > 0) {
        saved = *(const uint4*)(p.gates + at * 4);
        now = *(const u32*)(p.c_now + at), before = *(const u32*)(p.c_before + at);
        above = *(const u32*)(p.d_above + (u64)own.row * p.width + own.unit);
    }
    const u32 words[2][2] = {{saved.x, saved.y}, {saved.z, saved.w}};
    u32 gradients[2][2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        const u32 unit = own.unit + i;
        const u64 of_state = (u64)own.row * p.n + unit;
        const bool real = unit < p.n;
        float d_h = p.d_h ? p.d_h[at + i] : 0, d_state = p.begins ? 0 : p.d_state[at + i];
        if (p.begins && p.d_last_c && real) d_state = p.d_last_c[of_state] / scale;
        if (real && length > 0) {
            if (p.d_last_h && p.step == (p.reverse ? 0 : length - 1))
                d_h += p.d_last_h[of_state] / scale;
            if (p.d_first_h && p.reverse && p.step == length)
                p.d_first_h[of_state] = scale * (CELL == GRU ? d_h + d_state : d_h);
        }
        float d[4] = {low(words[i][0]), high(words[i][0]), low(words[i][1]), high(words[i][1])};
        const float held = d_state;
        cell_backward(
            d, d_h + (i ? high(above) : low(above)), d_state, i ? high(now) : low(now),
            i ? high(before) : low(before));
        if (!running) d_state = p.from_states ? held : 0;
#pragma unroll
        for (u32 slot = 0; slot < 4; slot++) {
            // Gradients of given states may be of any size: those beyond f16 become infinite.
            const float limited = p.from_states ? d[slot] : clamp_to_half(d[slot]);
            d[slot] = running ? limited : 0;
        }
        p.d_state[at + i] = d_state;
        gradients[i][0] = pack(d[0], d[1]), gradients[i][1] = pack(d[2], d[3]);
    }
    *(uint4*)(p.gates + at * 4) =
        make_uint4(gradients[0][0], gradients[0][1], gradients[1][0], gradients[1][1]);
}

// Gradients of first states that are left after all steps. d_h: from the last product.
extern "C" __global__ void first_gradients(const FirstGradients p) {
    const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= p.rows * p.n) return;
    const u32 row = index / p.n, unit = index % p.n, length = p.run[row];
    const u64 at = (u64)row * p.padded + unit;
    const float scale = p.header->weight, d_state = p.d_state[at];
    if (p.d_first_h && length == 0) p.d_first_h[index] = p.d_last_h ? p.d_last_h[index] : 0;
    else if (p.d_first_h && (!p.reverse || length == p.steps))
        p.d_first_h[index] = scale * (CELL == GRU ? p.d_h[at] + d_state : p.d_h[at]);
    if (p.d_first_c) p.d_first_c[index] = scale * d_state;
}

// to (gridDim.y chunks, N, 4): sums of (positions, N, 4), a chunk of positions each; a thread per
// two units
extern "C" __global__ void sum_slots(const SumSlots p) {
    const u32 at = (blockIdx.x * blockDim.x + threadIdx.x) * 8, columns = p.padded * 4;
    if (at >= columns) return;
    const u32 each = (p.positions + gridDim.y - 1) / gridDim.y;
    const u32 first = blockIdx.y * each, end = min(first + each, p.positions);
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (u32 position = first; position < end; position++) {
        const uint4 v = *(const uint4*)(p.from + (u64)position * columns + at);
        const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (u32 i = 0; i < 4; i++) sum[2 * i] += low(words[i]), sum[2 * i + 1] += high(words[i]);
    }
    float* const to = p.to + (u64)blockIdx.y * columns + at;
#pragma unroll
    for (u32 i = 0; i < 8; i++) to[i] = sum[i];
}
