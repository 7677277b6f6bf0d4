// All steps of a lane's direction, some rows: a block, with its weights and states in shared memory.
//
// A product gives 64 gates (16 units) of 56 rows. Its rows are ordered so that a thread gets i and f, or g and o, of one unit,
// for two rows of the batch; neighbours swap, and each has all four gates of one row.

// Byte of a gate's weight in its column of the h image.
__device__ __forceinline__ u32 in_weights(u32 gate, u32 unit, u32 column) {
    const u32 row = unit % 16 / 4 * 16 + gate % 2 * 8 + unit % 4 * 2 + gate / 2;
    return (unit / 16 * H_GROUPS + column / 8) * PLATE + row * 16 + column % 8 * 2;
}

// Two products for each four warps: so many warps hide what each waits for.
static const u32 ITEMS = TILES * HALVES, CREWS = (ITEMS + 1) / 2, TURNS = 2;

extern "C" __global__ void __launch_bounds__(128 * CREWS, 1) group_forward(
    const Task* tasks, const Progress* progress, const float* __restrict__ params, u8* h_images, uint2* gates, u16* cells, u32 steps,
    u32 elements, u32 keep) {
    const u32 who = blockIdx.x, owner = who / DIRECTIONS, reverse = who % DIRECTIONS, first_row = blockIdx.y * ROWS;
    const Task task = tasks[owner];
    if (!at_work(task, progress[owner])) return;
    extern __shared__ __align__(128) u8 shared[];
    u8* const images = shared + W_FORWARD; // two, which take turns
    const u64 place = (u64)who * gridDim.y + blockIdx.y;
    h_images += place * (steps + 1) * H_IMAGE;
    gates += place * steps * SAVED;
    cells += place * steps * SAVED;

    const u32 thread = threadIdx.x, crew = thread / 128, warp = thread / 32 % 4, g = thread % 32 / 4, q = thread % 4, odd = g % 2;
    const u32 threads = 128 * CREWS;
    for (u32 i = thread; i < (W_FORWARD + 2 * H_IMAGE) / 16; i += threads) ((uint4*)shared)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    params += (u64)owner * PARAMETERS + reverse * OF_DIRECTION;
    // Halved but for the candidate: sigmoid(x) = (1 + tanh(x / 2)) / 2.
    auto scaled = [&](u32 row, float w) { return row / N == 2 ? w : 0.5f * w; };
    auto weight = [&](u32 row, u32 column) -> u16& { return *(u16*)(shared + in_weights(row / N, row % N, column)); };
#pragma unroll 8
    for (u32 i = thread; i < 4 * N * N; i += threads) weight(i / N, i % N) = half(scaled(i / N, params[W_HH + i]));
    for (u32 i = thread; i < 4 * N * Q; i += threads) {
        const float w = scaled(i / Q, params[i]);
        weight(i / Q, N + i % Q * 3) = weight(i / Q, N + i % Q * 3 + 1) = half(w);
        weight(i / Q, N + i % Q * 3 + 2) = half(w - whole(half(w)));
    }
    for (u32 i = thread; i < 4 * N; i += threads) {
        const float bias = scaled(i, params[B_IH + i] + params[B_HH + i]);
        weight(i, ONES) = half(bias);
        weight(i, ONES + 1) = half(bias - whole(half(bias)));
    }

    // Thread r brings what row r reads.
    const bool brings = thread < ROWS;
    const u32 sequence = brings ? sequence_of(task, progress[owner].cursor, first_row + thread) : NONE;
    const float* own_x = task.x + (u64)(sequence == NONE ? 0 : sequence) * elements * Q;
    auto bring = [&](float (&x)[Q], u32 taken) {
        const u32 s = reverse ? steps - 1 - taken : taken;
        const bool there = sequence != NONE && taken < steps && s < elements;
#pragma unroll
        for (u32 i = 0; i < Q; i++) x[i] = there ? own_x[s * Q + i] : 0;
    };
    auto put = [&](u8* image, const float (&x)[Q]) {
#pragma unroll
        for (u32 i = 0; i < Q; i++) {
            const u16 most = half(x[i]), rest = half(x[i] - whole(most));
            *(u16*)(image + in_image(thread, N + 3 * i)) = most;
            *(u16*)(image + in_image(thread, N + 3 * i + 1)) = rest;
            *(u16*)(image + in_image(thread, N + 3 * i + 2)) = most;
        }
    };
    float x_next[Q];
    if (brings) {
        bring(x_next, 0);
        put(images, x_next);
        for (u32 i = 0; i < 4; i++) *(u16*)(images + i / 2 * H_IMAGE + in_image(thread, ONES + i % 2)) = half(1);
    }
    shown();
    __syncthreads();
    if (thread == 0) send(h_images, shared_address(images), H_IMAGE);

    float cell[TURNS][7];
#pragma unroll
    for (u32 turn = 0; turn < TURNS; turn++)
#pragma unroll
        for (u32 j = 0; j < 7; j++) cell[turn][j] = 0;
    const u64 from_w = descriptor(shared_address(shared), PLATE, 128);
    const u64 from_h = descriptor(shared_address(images), GROUP, 128);

    for (u32 taken = 0; taken < steps; taken++) {
        const u32 now = taken % 2;
        u8* const next = images + (1 - now) * H_IMAGE;
        if (brings) bring(x_next, taken + 1);
#pragma unroll
        for (u32 turn = 0; turn < TURNS; turn++) {
            const u32 item = crew + CREWS * turn, tile = item / HALVES, side = item % HALVES;
            if (item >= ITEMS) break;
            float sum[28];
            products_begin();
#pragma unroll
            for (u32 depth = 0; depth < H_GROUPS / 2; depth++) {
                const u64 a = further(from_w, (tile * H_GROUPS + 2 * depth) * PLATE);
                const u64 b = further(from_h, now * H_IMAGE + 2 * depth * GROUP + side * HALF * 16);
                multiply<0>(sum, a, b, depth > 0);
            }
            products_begun();
            products_done<0>(sum);
            uint2 gate_pairs[7];
            float h[7];
#pragma unroll
            for (u32 j = 0; j < 7; j++) {
                // This thread has one pair of gates of two rows, its neighbour the other pair: it keeps row `odd`.
                const float other = __shfl_xor_sync(~0u, odd ? sum[4 * j] : sum[4 * j + 1], 4);
                const float other_too = __shfl_xor_sync(~0u, odd ? sum[4 * j + 2] : sum[4 * j + 3], 4);
                const float in = sigmoid_of_half(odd ? other : sum[4 * j]);
                const float forget = sigmoid_of_half(odd ? other_too : sum[4 * j + 2]);
                const float candidate = fast_tanh(odd ? sum[4 * j + 1] : other);
                const float out = sigmoid_of_half(odd ? sum[4 * j + 3] : other_too);
                float& c = cell[turn][j];
                c = forget * c + in * candidate;
                h[j] = out * fast_tanh(c);
                gate_pairs[j] = make_uint2(pack(in, forget), pack(candidate, out));
            }
            const u32 unit = 16 * tile + 4 * warp + g / 2;
            const u32 saved = (side * 7 * N + unit) * 8 + 2 * q + odd;
            if (unit < N) {
#pragma unroll
                for (u32 j = 0; j < 7; j++) {
                    *(u16*)(next + in_image(side * HALF + 8 * j + 2 * q + odd, unit)) = half(h[j]);
                }
                if (keep) {
#pragma unroll
                    for (u32 j = 0; j < 7; j++) {
                        if (side * HALF + 8 * j < ROWS) {
                            gates[saved + j * N * 8] = gate_pairs[j];
                            cells[saved + j * N * 8] = half(cell[turn][j]);
                        }
                    }
                }
            }
        }
        gates += SAVED;
        cells += SAVED;
        if (brings) put(next, x_next);
        shown();
        if (thread == 0) left(); // the image before this one, which the next step overwrites
        __syncthreads();
        if (thread == 0) send(h_images + (u64)(taken + 1) * H_IMAGE, shared_address(next), H_IMAGE);
    }
    if (thread == 0) left();
}
