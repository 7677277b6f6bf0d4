// All steps of a lane's direction back, some rows: a block, with its weights and one d image in shared memory.
//
// A product gives the gradient of h for 64 units and 56 rows: a thread has two units of 14 rows, through all steps. Gradients
// of gates go to the image, for the next product, and to device memory at once; what the answers say follows as a whole.

static const u32 TAIL = 4 * N / 8 * GROUP; // where the groups with answers begin

// Two f16; what is too large is cut, and no number stays none.
__device__ __forceinline__ u32 pack_cut(float low, float high) {
    u32 both;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

static const u32 THREADS = 128 * BACK_TILES * HALVES, SAYINGS = (ROWS * OUT + THREADS - 1) / THREADS, AHEAD = 5;

extern "C" __global__ void __launch_bounds__(THREADS, 1) group_backward(
    const Task* tasks, const Progress* progress, const float* __restrict__ params, const u16* __restrict__ d_answers,
    const uint2* __restrict__ gates, const u16* __restrict__ cells,
    u8* d_images, u32 steps, u32 answers) {
    const u32 who = blockIdx.x, owner = who / DIRECTIONS, reverse = who % DIRECTIONS;
    if (!at_work(tasks[owner], progress[owner])) return;
    extern __shared__ __align__(128) u8 shared[];
    u8* const image = shared + W_BACKWARD;
    const u64 place = (u64)who * gridDim.y + blockIdx.y;
    d_images += place * (steps + 1) * D_IMAGE;
    gates += place * steps * SAVED;
    cells += place * steps * SAVED;

    const u32 thread = threadIdx.x, crew = thread / 128, warp = thread / 32 % 4, g = thread % 32 / 4, q = thread % 4;
    const u32 tile = crew % BACK_TILES, side = crew / BACK_TILES;
    for (u32 i = thread; i < (W_BACKWARD + D_IMAGE) / 16; i += THREADS) ((uint4*)shared)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    params += (u64)owner * PARAMETERS;
    const float* const w_hh = params + reverse * OF_DIRECTION + W_HH;
    // For the gradient of a unit, its weight in a column of the d image.
    auto weight = [&](u32 unit, u32 column) -> u16& {
        return *(u16*)(shared + (unit / 64 * D_GROUPS + column / 8) * PLATE + unit % 64 * 16 + column % 8 * 2);
    };
#pragma unroll 8
    for (u32 i = thread; i < 4 * N * N; i += THREADS) weight(i % N, i / N % N * 4 + i / N / N) = half(w_hh[i]);
    for (u32 i = thread; i < OUT * N; i += THREADS) {
        weight(i % N, 4 * N + i / N) = half(params[W_OUT + (i / N * DIRECTIONS + reverse) * N + i % N]);
    }

    // Threads bring what the answers say, in rows: of the step that was `taken`, where it has an answer.
    const u32 room = gridDim.y * ROWS, first_row = blockIdx.y * ROWS;
    auto told = [&](u32 taken, u32 i) -> u16 {
        const u32 s = reverse ? steps - 1 - taken : taken, answer = s - (steps - answers); // none for those that are dropped
        const u64 row = ((u64)owner * answers + answer) * room + first_row;
        return taken < steps && answer < answers ? d_answers[row * OUT + i] : (u16)0;
    };
    u16 saying[SAYINGS];
    auto bring = [&](u32 taken) {
#pragma unroll
        for (u32 k = 0; k < SAYINGS; k++) saying[k] = thread + k * THREADS < ROWS * OUT ? told(taken, thread + k * THREADS) : 0;
    };
    auto put = [&]() {
#pragma unroll
        for (u32 k = 0; k < SAYINGS; k++) {
            const u32 i = thread + k * THREADS;
            if (i < ROWS * OUT) *(u16*)(image + in_image(i / OUT, 4 * N + i % OUT)) = saying[k];
        }
    };
    bring(steps - 1);
    put();
    shown();
    __syncthreads();
    if (thread == 0) send(d_images + (u64)steps * D_IMAGE + TAIL, shared_address(image) + TAIL, D_IMAGE - TAIL);

    // Two units, g and g + 8, of rows 2q and 2q + 1 of each eight.
    const u32 unit = 64 * tile + 16 * warp + g;
    const u32 own = (side * 7 * N + unit) * 8 + 2 * q;
    auto there = [&](u32 j, u32 e) { return unit + 8 * e < N && side * HALF + 8 * j < ROWS; };
    auto cells_at = [&](u32 taken, u32 j, u32 e) -> u32 {
        return there(j, e) ? *(const u32*)(cells + (u64)taken * SAVED + own + (j * N + 8 * e) * 8) : 0;
    };
    // What is needed of a step comes some time ahead: for one unit, then for the other.
    uint4 gates_ahead[AHEAD];
    u32 cells_ahead[AHEAD];
    auto fetch = [&](u32 taken, u32 i) {
        const u32 j = i % 7, e = i / 7;
        const uint2* from = gates + (u64)taken * SAVED + own + (j * N + 8 * e) * 8;
        gates_ahead[i % AHEAD] = there(j, e) ? *(const uint4*)from : make_uint4(0, 0, 0, 0);
        cells_ahead[i % AHEAD] = taken > 0 ? cells_at(taken - 1, j, e) : 0;
    };
    u32 cell[7][2];
    float d_cell[28];
#pragma unroll
    for (u32 i = 0; i < 28; i++) d_cell[i] = 0;
#pragma unroll
    for (u32 j = 0; j < 7; j++)
#pragma unroll
        for (u32 e = 0; e < 2; e++) cell[j][e] = cells_at(steps - 1, j, e);
    const u64 from_w = descriptor(shared_address(shared) + tile * D_GROUPS * PLATE, PLATE, 128);
    const u64 from_d = descriptor(shared_address(image) + side * HALF * 16, GROUP, 128);

    for (u32 taken = steps; taken-- > 0;) {
        bring(taken - 1); // nothing before the first
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) fetch(taken, i);
        float d_h[28];
        products_begin();
#pragma unroll
        for (u32 depth = 0; depth < D_GROUPS / 2; depth++) {
            multiply<0>(d_h, further(from_w, 2 * depth * PLATE), further(from_d, 2 * depth * GROUP), depth > 0);
        }
        products_begun();
        products_done<0>(d_h);
        if (thread == 0) left();
        __syncthreads(); // all products have read the image, and it has left
        u8* const to = d_images + (u64)taken * D_IMAGE;
#pragma unroll
        for (u32 e = 0; e < 2; e++) {
            if (unit - g + 8 * e >= N) continue; // nothing for the whole warp
#pragma unroll
            for (u32 j = 0; j < 7; j++) {
                const u32 i = 7 * e + j, before = cells_ahead[i % AHEAD];
                const uint4 both = gates_ahead[i % AHEAD];
                if (i + AHEAD < 14) fetch(taken, i + AHEAD);
                uint2 d[2];
#pragma unroll
                for (u32 r = 0; r < 2; r++) {
                    const u32 first = r ? both.z : both.x, second = r ? both.w : both.y;
                    const float in = low(first), forget = high(first), candidate = low(second), out = high(second);
                    const float tanh_c = fast_tanh(r ? high(cell[j][e]) : low(cell[j][e]));
                    const float c_before = r ? high(before) : low(before);
                    const u32 at = 4 * j + 2 * e + r;
                    const float d_out = d_h[at] * out;
                    const float dc = d_cell[at] + d_out * (1 - tanh_c * tanh_c);
                    d_cell[at] = dc * forget;
                    d[r] = make_uint2(
                        pack_cut(dc * candidate * (in - in * in), dc * c_before * (forget - forget * forget)),
                        pack_cut(dc * (in - in * candidate * candidate), d_out * tanh_c * (1 - out)));
                }
                cell[j][e] = before;
                // Neighbours have units of one group: each keeps one row of both.
                const u32 odd = g % 2;
                const uint2 mine = odd ? d[1] : d[0], theirs = odd ? d[0] : d[1];
                const uint2 other =
                    make_uint2(__shfl_xor_sync(~0u, theirs.x, 4), __shfl_xor_sync(~0u, theirs.y, 4));
                const uint4 pair = odd ? make_uint4(other.x, other.y, mine.x, mine.y) : make_uint4(mine.x, mine.y, other.x, other.y);
                const u32 first_unit = unit + 8 * e - odd, at = in_image(side * HALF + 8 * j + 2 * q + odd, 4 * first_unit);
                if (side * HALF + 8 * j < ROWS) {
                    if (first_unit + 1 < N) {
                        *(uint4*)(image + at) = *(uint4*)(to + at) = pair;
                    } else if (first_unit < N) { // the answers' columns come next
                        *(uint2*)(image + at) = *(uint2*)(to + at) = make_uint2(pair.x, pair.y);
                    }
                }
            }
        }
        put();
        shown();
        __syncthreads();
        if (thread == 0) send(d_images + (u64)taken * D_IMAGE + TAIL, shared_address(image) + TAIL, D_IMAGE - TAIL);
    }
    if (thread == 0) left();
}
