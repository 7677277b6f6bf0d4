// Backward through all steps of one direction of a lane, ROWS of the batch: a block, with its
// weights and one d image in shared memory.
//
// A product computes dh of 64 units and 56 rows: a thread has two units of 14 rows, through all
// steps. Gradients of the gates go to the image, for the next product, and directly to device
// memory; the columns with the gradients of the outputs follow in one bulk copy.

static const u32 OUTPUT_GROUPS =
    4 * N / 8 * GROUP_BYTES; // offset of the column groups with d_outputs

// Two f16 that saturate to the finite range; NaN stays NaN.
__device__ __forceinline__ u32 pack_saturated(float low, float high) {
    u32 both;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

static const u32 THREADS = 128 * BACKWARD_TILES * ROW_TILES;
static const u32 OUTPUTS_PER_THREAD = (ROWS * OUT + THREADS - 1) / THREADS;
static const u32 PREFETCH = 5; // pairs of cells whose gates and c are loaded ahead

extern "C" __global__ void __launch_bounds__(THREADS, 1) group_backward(const GroupBackward p) {
    const u32 steps = p.steps, elements = p.elements;
    const u32 recurrence = blockIdx.x, lane_id = recurrence / DIRECTIONS,
              reverse = recurrence % DIRECTIONS;
    if (!has_batch(p.tasks[lane_id], p.progress[lane_id])) return;
    extern __shared__ __align__(128) u8 shared[];
    u8* const image = shared + W_BACKWARD;
    const u64 block = (u64)recurrence * gridDim.y + blockIdx.y;
    u8* const d_images = p.d_images + block * (steps + 1) * D_IMAGE;
    const uint2* __restrict__ const gates = p.gates + block * steps * SAVED;
    const u16* __restrict__ const cells = p.cells + block * steps * SAVED;
    const u16* __restrict__ const all_d_outputs = p.d_outputs;

    const u32 thread = threadIdx.x, warpgroup = thread / 128, warp = thread / 32 % 4;
    const u32 g = thread % 32 / 4, q = thread % 4;
    const u32 tile = warpgroup % BACKWARD_TILES, side = warpgroup / BACKWARD_TILES;
    for (u32 i = thread; i < (W_BACKWARD + D_IMAGE) / 16; i += THREADS) {
        ((uint4*)shared)[i] = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    const float* __restrict__ const params = p.params + (u64)lane_id * PARAMETERS;
    const float* const w_hh = params + reverse * PER_DIRECTION + W_HH;
    // The weight of a column of the d image in a unit's dh.
    auto weight = [&](u32 unit, u32 column) -> u16& {
        return *(u16*)(shared + (unit / 64 * D_GROUPS + column / 8) * W_GROUP_BYTES +
                       unit % 64 * 16 + column % 8 * 2);
    };
#pragma unroll 8
    for (u32 i = thread; i < 4 * N * N; i += THREADS) {
        weight(i % N, i / N % N * 4 + i / N / N) = half(w_hh[i]);
    }
    for (u32 i = thread; i < OUT * N; i += THREADS) {
        weight(i % N, 4 * N + i / N) =
            half(params[W_OUT + (i / N * DIRECTIONS + reverse) * N + i % N]);
    }

    // Gradients of the outputs of step t (in processing order), prefetched to registers by rows;
    // zero for steps without an output.
    const u32 rows = gridDim.y * ROWS, first_row = blockIdx.y * ROWS;
    auto d_output = [&](u32 t, u32 i) -> u16 {
        const u32 s = reverse ? steps - 1 - t : t, element = s - (steps - elements);
        const u64 row = ((u64)lane_id * elements + element) * rows + first_row;
        return t < steps && element < elements ? all_d_outputs[row * OUT + i] : (u16)0;
    };
    u16 d_outputs[OUTPUTS_PER_THREAD];
    auto load_d_outputs = [&](u32 t) {
#pragma unroll
        for (u32 k = 0; k < OUTPUTS_PER_THREAD; k++) {
            d_outputs[k] =
                thread + k * THREADS < ROWS * OUT ? d_output(t, thread + k * THREADS) : 0;
        }
    };
    auto store_d_outputs = [&]() {
#pragma unroll
        for (u32 k = 0; k < OUTPUTS_PER_THREAD; k++) {
            const u32 i = thread + k * THREADS;
            if (i < ROWS * OUT) *(u16*)(image + in_image(i / OUT, 4 * N + i % OUT)) = d_outputs[k];
        }
    };
    auto copy_d_outputs = [&](u32 image_index) {
        u8* const to = d_images + (u64)image_index * D_IMAGE + OUTPUT_GROUPS;
        bulk_copy_to_global(to, shared_address(image) + OUTPUT_GROUPS, D_IMAGE - OUTPUT_GROUPS);
    };
    load_d_outputs(steps - 1);
    store_d_outputs();
    fence_proxy_async_shared();
    __syncthreads();
    if (thread == 0) copy_d_outputs(steps);

    // Two units, g and g + 8 of the warp's 16, in rows 2q and 2q + 1 of each eight.
    const u32 unit = 64 * tile + 16 * warp + g;
    const u32 own = (side * 7 * N + unit) * 8 + 2 * q;
    auto exists = [&](u32 j, u32 e) { return unit + 8 * e < N && side * TILE_ROWS + 8 * j < ROWS; };
    auto cells_at = [&](u32 t, u32 j, u32 e) -> u32 {
        return exists(j, e) ? *(const u32*)(cells + (u64)t * SAVED + own + (j * N + 8 * e) * 8) : 0;
    };
    // Saved gates and cells are prefetched, PREFETCH pairs ahead: all of one unit, then of the
    // other.
    uint4 gates_ahead[PREFETCH];
    u32 cells_ahead[PREFETCH];
    auto prefetch = [&](u32 t, u32 i) {
        const u32 j = i % 7, e = i / 7;
        const uint2* from = gates + (u64)t * SAVED + own + (j * N + 8 * e) * 8;
        gates_ahead[i % PREFETCH] = exists(j, e) ? *(const uint4*)from : make_uint4(0, 0, 0, 0);
        cells_ahead[i % PREFETCH] = t > 0 ? cells_at(t - 1, j, e) : 0;
    };
    u32 cell[7][2];
    float d_cell[28];
#pragma unroll
    for (u32 i = 0; i < 28; i++) d_cell[i] = 0;
#pragma unroll
    for (u32 j = 0; j < 7; j++)
#pragma unroll
        for (u32 e = 0; e < 2; e++) cell[j][e] = cells_at(steps - 1, j, e);
    const u64 w_descriptor =
        descriptor(shared_address(shared) + tile * D_GROUPS * W_GROUP_BYTES, W_GROUP_BYTES, 128);
    const u64 d_descriptor =
        descriptor(shared_address(image) + side * TILE_ROWS * 16, GROUP_BYTES, 128);

    for (u32 t = steps; t-- > 0;) {
        load_d_outputs(t - 1); // zeros before the first step: t - 1 wraps around
#pragma unroll
        for (u32 i = 0; i < PREFETCH; i++) prefetch(t, i);
        float d_h[28];
        wgmma_fence();
#pragma unroll
        for (u32 k_step = 0; k_step < D_GROUPS / 2; k_step++) {
            wgmma<0>(
                d_h, advance(w_descriptor, 2 * k_step * W_GROUP_BYTES),
                advance(d_descriptor, 2 * k_step * GROUP_BYTES), k_step > 0);
        }
        wgmma_commit();
        wgmma_wait<0>(d_h);
        if (thread == 0) bulk_copies_wait_read();
        __syncthreads(); // all products and the bulk copy have read the image
        u8* const to = d_images + (u64)t * D_IMAGE;
#pragma unroll
        for (u32 e = 0; e < 2; e++) {
            if (unit - g + 8 * e >= N) continue; // the whole warp is padding
#pragma unroll
            for (u32 j = 0; j < 7; j++) {
                const u32 i = 7 * e + j, before = cells_ahead[i % PREFETCH];
                const uint4 both = gates_ahead[i % PREFETCH];
                if (i + PREFETCH < 14) prefetch(t, i + PREFETCH);
                uint2 d[2];
#pragma unroll
                for (u32 r = 0; r < 2; r++) {
                    const u32 first = r ? both.z : both.x, second = r ? both.w : both.y;
                    const LstmGates saved = {low(first), high(first), low(second), high(second)};
                    const float c = r ? high(cell[j][e]) : low(cell[j][e]);
                    const float c_before = r ? high(before) : low(before);
                    const u32 at = 4 * j + 2 * e + r;
                    const LstmGates grads = lstm_cell_backward_factored<FastActivation>(
                        saved, d_h[at], d_cell[at], c, c_before);
                    d[r] = make_uint2(
                        pack_saturated(grads.i, grads.f), pack_saturated(grads.g, grads.o));
                }
                cell[j][e] = before;
                // Neighbours have adjacent units: they exchange rows, so that each has one row of
                // both units, 16 bytes.
                const u32 odd = g % 2;
                const uint2 mine = odd ? d[1] : d[0], theirs = odd ? d[0] : d[1];
                const uint2 other = make_uint2(
                    __shfl_xor_sync(~0u, theirs.x, 4), __shfl_xor_sync(~0u, theirs.y, 4));
                const uint4 pair = odd ? make_uint4(other.x, other.y, mine.x, mine.y)
                                       : make_uint4(mine.x, mine.y, other.x, other.y);
                const u32 first_unit = unit + 8 * e - odd;
                const u32 at = in_image(side * TILE_ROWS + 8 * j + 2 * q + odd, 4 * first_unit);
                if (side * TILE_ROWS + 8 * j < ROWS) {
                    if (first_unit + 1 < N) {
                        *(uint4*)(image + at) = *(uint4*)(to + at) = pair;
                    } else if (first_unit < N) { // the columns of d_outputs come next
                        *(uint2*)(image + at) = *(uint2*)(to + at) = make_uint2(pair.x, pair.y);
                    }
                }
            }
        }
        store_d_outputs();
        fence_proxy_async_shared();
        __syncthreads();
        if (thread == 0) copy_d_outputs(t);
    }
    if (thread == 0) bulk_copies_wait_read();
}
