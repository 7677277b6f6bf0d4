// All steps of one direction of a lane, ROWS of the batch: a block, with weights and states in
// shared memory.
//
// A product computes 64 gates (16 units) of 56 rows. Its rows are ordered so that a thread's
// accumulators are i and f, or g and o, of one unit for two rows of the batch; neighbours exchange
// one row, and then each has all four gates of one row.

// Byte offset of a gate's weight for a column of the h image.
__device__ __forceinline__ u32 in_weights(u32 gate, u32 unit, u32 column) {
    const u32 row = unit % 16 / 4 * 16 + gate % 2 * 8 + unit % 4 * 2 + gate / 2;
    return (unit / 16 * H_GROUPS + column / 8) * W_GROUP_BYTES + row * 16 + column % 8 * 2;
}

// Weights of the three sigmoid gates are stored halved: sigmoid(x) = (1 + tanh(x / 2)) / 2.
struct HalvedActivation {
    static __device__ __forceinline__ float sigmoid(float half_x) {
        return 0.5f * fast_tanh(half_x) + 0.5f;
    }
    static __device__ __forceinline__ float tanh(float x) { return fast_tanh(x); }
};

// Two products per warpgroup: that many warps hide each other's latencies.
static const u32 ITEMS = TILES * ROW_TILES, ROUNDS = 2, WARPGROUPS = (ITEMS + ROUNDS - 1) / ROUNDS;

extern "C" __global__ void __launch_bounds__(128 * WARPGROUPS, 1)
group_forward(const GroupForward p) {
    const u32 steps = p.steps, elements = p.elements;
    const u32 recurrence = blockIdx.x, lane_id = recurrence / DIRECTIONS,
              reverse = recurrence % DIRECTIONS;
    const u32 first_row = blockIdx.y * ROWS;
    const Task task = p.tasks[lane_id];
    if (!has_batch(task, p.progress[lane_id])) return;
    extern __shared__ __align__(128) u8 shared[];
    u8* const images = shared + W_FORWARD; // a double buffer
    const u64 block = (u64)recurrence * gridDim.y + blockIdx.y;
    u8* const h_images = p.h_images + block * (steps + 1) * H_IMAGE;
    uint2* gates = p.gates + block * steps * SAVED;
    u16* cells = p.cells + block * steps * SAVED;

    const u32 thread = threadIdx.x, warpgroup = thread / 128, warp = thread / 32 % 4;
    const u32 g = thread % 32 / 4, q = thread % 4, odd = g % 2;
    const u32 threads = 128 * WARPGROUPS;
    for (u32 i = thread; i < (W_FORWARD + 2 * H_IMAGE) / 16; i += threads) {
        ((uint4*)shared)[i] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    const float* __restrict__ const params =
        p.params + ((u64)lane_id * PARAMETERS + reverse * PER_DIRECTION);
    // Halved but for the candidate: see `HalvedActivation`.
    auto scaled = [&](u32 row, float w) { return row / N == 2 ? w : 0.5f * w; };
    auto weight = [&](u32 row, u32 column) -> u16& {
        return *(u16*)(shared + in_weights(row / N, row % N, column));
    };
#pragma unroll 8
    for (u32 i = thread; i < 4 * N * N; i += threads) {
        weight(i / N, i % N) = half(scaled(i / N, params[W_HH + i]));
    }
    for (u32 i = thread; i < 4 * N * Q; i += threads) {
        const float w = scaled(i / Q, params[i]);
        weight(i / Q, N + i % Q * 3) = weight(i / Q, N + i % Q * 3 + 1) = half(w);
        weight(i / Q, N + i % Q * 3 + 2) = half(w - half_to_float(half(w)));
    }
    for (u32 i = thread; i < 4 * N; i += threads) {
        const float bias = scaled(i, params[B_IH + i] + params[B_HH + i]);
        weight(i, ONES) = half(bias);
        weight(i, ONES + 1) = half(bias - half_to_float(half(bias)));
    }

    // Thread r loads the input of row r, one step ahead.
    const bool loads_x = thread < ROWS;
    const u32 sequence =
        loads_x ? sequence_of(task, p.progress[lane_id].cursor, first_row + thread) : NONE;
    const float* own_x = task.x + (u64)(sequence == NONE ? 0 : sequence) * elements * Q;
    auto load_x = [&](float (&x)[Q], u32 t) {
        const u32 s = reverse ? steps - 1 - t : t;
        const bool real = sequence != NONE && t < steps && s < elements;
#pragma unroll
        for (u32 i = 0; i < Q; i++) x[i] = real ? own_x[s * Q + i] : 0;
    };
    auto store_x = [&](u8* image, const float (&x)[Q]) {
#pragma unroll
        for (u32 i = 0; i < Q; i++) {
            const u16 rounded = half(x[i]), rest = half(x[i] - half_to_float(rounded));
            *(u16*)(image + in_image(thread, N + 3 * i)) = rounded;
            *(u16*)(image + in_image(thread, N + 3 * i + 1)) = rest;
            *(u16*)(image + in_image(thread, N + 3 * i + 2)) = rounded;
        }
    };
    float x_next[Q];
    if (loads_x) {
        load_x(x_next, 0);
        store_x(images, x_next);
        for (u32 i = 0; i < 4; i++) {
            *(u16*)(images + i / 2 * H_IMAGE + in_image(thread, ONES + i % 2)) = half(1);
        }
    }
    fence_proxy_async_shared();
    __syncthreads();
    if (thread == 0) bulk_copy_to_global(h_images, shared_address(images), H_IMAGE);

    float cell[ROUNDS][7];
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++)
#pragma unroll
        for (u32 j = 0; j < 7; j++) cell[round][j] = 0;
    const u64 w_descriptor = descriptor(shared_address(shared), W_GROUP_BYTES, 128);
    const u64 h_descriptor = descriptor(shared_address(images), GROUP_BYTES, 128);

    // t counts steps in processing order.
    for (u32 t = 0; t < steps; t++) {
        const u32 now = t % 2;
        u8* const next = images + (1 - now) * H_IMAGE;
        if (loads_x) load_x(x_next, t + 1);
#pragma unroll
        for (u32 round = 0; round < ROUNDS; round++) {
            const u32 item = warpgroup + WARPGROUPS * round, tile = item / ROW_TILES,
                      side = item % ROW_TILES;
            if (item >= ITEMS) break;
            float sum[28];
            wgmma_fence();
#pragma unroll
            for (u32 k_step = 0; k_step < H_GROUPS / 2; k_step++) {
                const u64 a = advance(w_descriptor, (tile * H_GROUPS + 2 * k_step) * W_GROUP_BYTES);
                const u64 b = advance(
                    h_descriptor, now * H_IMAGE + 2 * k_step * GROUP_BYTES + side * TILE_ROWS * 16);
                wgmma<0>(sum, a, b, k_step > 0);
            }
            wgmma_commit();
            wgmma_wait<0>(sum);
            uint2 gate_pairs[7];
            float h[7];
#pragma unroll
            for (u32 j = 0; j < 7; j++) {
                // This thread has one pair of gates of two rows, its neighbour the other pair. It
                // keeps row `odd`.
                const float other = __shfl_xor_sync(~0u, odd ? sum[4 * j] : sum[4 * j + 1], 4);
                const float other_too =
                    __shfl_xor_sync(~0u, odd ? sum[4 * j + 2] : sum[4 * j + 3], 4);
                LstmGates own = {
                    odd ? other : sum[4 * j], odd ? other_too : sum[4 * j + 2],
                    odd ? sum[4 * j + 1] : other, odd ? sum[4 * j + 3] : other_too};
                h[j] = lstm_cell_forward<HalvedActivation>(own, cell[round][j]);
                gate_pairs[j] = make_uint2(pack(own.i, own.f), pack(own.g, own.o));
            }
            const u32 unit = 16 * tile + 4 * warp + g / 2;
            const u32 saved = (side * 7 * N + unit) * 8 + 2 * q + odd;
            if (unit < N) {
#pragma unroll
                for (u32 j = 0; j < 7; j++) {
                    *(u16*)(next + in_image(side * TILE_ROWS + 8 * j + 2 * q + odd, unit)) =
                        half(h[j]);
                }
                if (p.save) {
#pragma unroll
                    for (u32 j = 0; j < 7; j++) {
                        if (side * TILE_ROWS + 8 * j < ROWS) {
                            gates[saved + j * N * 8] = gate_pairs[j];
                            cells[saved + j * N * 8] = half(cell[round][j]);
                        }
                    }
                }
            }
        }
        gates += SAVED;
        cells += SAVED;
        if (loads_x) store_x(next, x_next);
        fence_proxy_async_shared();
        // The copy of the image before this one has read its source, which the next step
        // overwrites.
        if (thread == 0) bulk_copies_wait_read();
        __syncthreads();
        if (thread == 0) {
            bulk_copy_to_global(h_images + (u64)(t + 1) * H_IMAGE, shared_address(next), H_IMAGE);
        }
    }
    if (thread == 0) bulk_copies_wait_read();
}
