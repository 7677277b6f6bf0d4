// The way forward of an LSTM that is too large for one multiprocessor: all steps in one launch.
//
//   gates_s = x_s W_ih^T + b + h_{s-1} W_hh^T          i, f, o sigmoid, g tanh
//   c_s = f c_{s-1} + i g        h_s = o tanh(c_s)
//
// A block owns 32 units (128 rows of W_hh, which stay in registers and shared memory) of NB rows of the batch; the N / 32 blocks
// of a group have the same rows, and tell each other h through device memory. Directions are lanes: more groups, with weights of
// their own. All blocks must run at once.
//
// There are no flags: what is told is filled with a pattern that no f16 result has, and whoever needs a word looks until it is
// another. Two warpgroups multiply and do the cell's arithmetic; the third brings h of the step before to shared memory: itself
// where there is little of it, by bulk copies where there is much (BULK), which leave the multipliers in peace.
//
//   gates (D, S, B, N, 4) f16    x W_ih^T in, then i, f, g, o        h (S + 2, B, D N) f16    c (D, S + 2, B, N) f16
//   told (S, D groups, N / 8, NB, 8) f16: h once more, as products read it
//
// with N = n padded to a multiple of 32, D directions. With tokens, x W_ih^T is a row of table (D, symbols, N, 4) instead.

static const u32 BLOCKS = N / 32;
static const u32 DEPTH = N / 16;                                   // products, 16 units of h each
static const u32 IN_REGISTERS = DEPTH < REGISTERS ? DEPTH : REGISTERS;
static const u32 IN_SHARED = DEPTH - IN_REGISTERS;
static const u32 CHUNK = 128;                                      // units of h that are waited for at once
static const u32 CHUNKS = (N + CHUNK - 1) / CHUNK;
static const u32 COLUMNS = NB / 8;                                 // cells of a thread: one of each 8 rows of the batch
static const u32 MULTIPLIERS = 256, LOADERS = 128;                 // threads
static const u32 LOADER_REGISTERS = BULK ? 40 : 72, MULTIPLIER_REGISTERS = (504 - LOADER_REGISTERS) / 2; // 504 for all three

struct Shared {
    u16 weights[2][IN_SHARED + 1][1024]; // by warpgroup: (16, 64) in tiles; one more, since there is no array of none
    u16 h[N * NB];                       // (N, NB) in tiles
    u16 stage[8][2][NB * 4];             // by warp, h or c: 4 units of each row
    u64 full[CHUNKS], copied[CHUNKS], empty;
};
static_assert(sizeof(Shared) == SHARED, "as `persistent/tiling.rs` counts");

// All of h, by each thread: 16 bytes at a time, ROUND chunks on their way at once.
__device__ __forceinline__ void bring(Shared& shared, const u16* told, u32 full) {
    const u32 loader = threadIdx.x - MULTIPLIERS;
    for (u32 first = 0; first < CHUNKS; first += ROUND) {
        uint4 v[ROUND][COLUMNS];
        auto at = [&](u32 i, u32 j) { return ((first + i) * CHUNK * NB + (j * LOADERS + loader) * 8); };
#pragma unroll
        for (u32 i = 0; i < ROUND; i++)
#pragma unroll
            for (u32 j = 0; j < COLUMNS; j++) {
                v[i][j] = make_uint4(0, 0, 0, 0);
                if (at(i, j) < N * NB) v[i][j] = look4(told + at(i, j));
            }
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (u32 i = 0; i < ROUND; i++)
#pragma unroll
                for (u32 j = 0; j < COLUMNS; j++) {
                    if (any_missing(v[i][j])) v[i][j] = look4(told + at(i, j)), missing = true;
                }
        } while (missing);
#pragma unroll
        for (u32 i = 0; i < ROUND; i++) {
            if (first + i >= CHUNKS) break;
#pragma unroll
            for (u32 j = 0; j < COLUMNS; j++) {
                if (at(i, j) < N * NB) *(uint4*)(shared.h + at(i, j)) = v[i][j];
            }
            seen_by_products();
            __syncwarp();
            if (threadIdx.x % 32 == 0) barrier_arrive(full + 8 * (first + i));
        }
    }
}

// A chunk, 128 units of 4 blocks, is a warp's: it looks at the last word of each warp that writes there, and when those have come
// copies all. That others are late is then seen in the copy, which is made again.
__device__ __forceinline__ void bring_by_copies(Shared& shared, const u16* told, u32 full, u32& parities) {
    const u32 lane = threadIdx.x % 32, own = threadIdx.x / 32 - MULTIPLIERS / 32;
    auto values = [](u32 chunk) { return min(CHUNK, N - chunk * CHUNK) * NB; };
    auto copied = [&](u32 chunk) { return shared_address(shared.copied + chunk); };
    auto copy = [&](u32 chunk) {
        u32 first = chunk * CHUNK * NB;
        if (lane == 0) copy_to_shared(shared_address(shared.h + first), told + first, 2 * values(chunk), copied(chunk));
    };
    for (u32 chunk = own; chunk < CHUNKS; chunk += LOADERS / 32) {
        // Warp lane % 8 of block lane / 8 writes 4 units of all rows.
        const u32 sample = (lane / 8 * 4 + lane % 8 / 2) * NB * 8 + (NB - 1) * 8 + lane % 2 * 4;
        while (__any_sync(~0u, sample < values(chunk) && look1(told + chunk * CHUNK * NB + sample) == SENTINEL)) {}
        copy(chunk);
    }
    for (u32 chunk = own; chunk < CHUNKS; chunk += LOADERS / 32) {
        for (;;) {
            barrier_wait(copied(chunk), parities >> chunk & 1);
            parities ^= 1 << chunk;
            const u16* there = shared.h + chunk * CHUNK * NB;
            bool late = false;
            for (u32 i = lane * 8; i < values(chunk); i += 256) late |= any_missing(*(const uint4*)(there + i));
            if (!__any_sync(~0u, late)) break;
            copy(chunk);
        }
        if (lane == 0) barrier_arrive(full + 8 * chunk);
    }
}

extern "C" __global__ void __launch_bounds__(MULTIPLIERS + LOADERS, 1) persistent_forward(
    const float* w_hh, const float* b_ih, const float* b_hh, u32 params_apart, u16* gates, const u16* table, const u32* tokens,
    u32 symbols, u16* c, u16* h, u16* told, const u32* run, u32 directions, u32 groups, u32 first_row, u32 steps, u32 rows, u32 n,
    u32 keep) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    Shared& shared = *(Shared*)dynamic;
    const u32 block = blockIdx.x % BLOCKS, group = blockIdx.x / BLOCKS % groups, direction = blockIdx.x / BLOCKS / groups;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 row0 = first_row + group * NB;          // of the batch
    const u32 width = directions * N;
    const u32 full = shared_address(shared.full), empty = shared_address(&shared.empty);
    w_hh += (u64)direction * params_apart;
    h += direction * N;
    told += (u64)(direction * groups + group) * N * NB;
    const u64 told_apart = (u64)directions * groups * N * NB; // from step to step
    auto step = [&](u32 taken) { return direction ? steps - 1 - taken : taken; };

    // Row `line` of the 128 of this block: W_hh's row of gate and unit. A warp's 16 lines are 4 units: what a thread gets of a
    // product are two gates of one unit, and its neighbour has the other two.
    auto weight = [&](u32 line, u32 k) -> float {
        u32 gate = (line & 1) * 2 + (line >> 3 & 1), unit = block * 32 + (line >> 4) * 4 + (line >> 1 & 3);
        return unit < n && k < n ? w_hh[(u64)(gate * n + unit) * n + k] : 0;
    };
    for (u32 i = threadIdx.x; i < 2 * IN_SHARED * 1024; i += blockDim.x) {
        u32 warpgroup = i / (IN_SHARED * 1024), at = i % 1024, depth = i / 1024 % max(IN_SHARED, 1u);
        // Neighbouring threads read neighbouring columns.
        u32 k = at % 16, line = at / 16;
        float value = weight(64 * warpgroup + line, 16 * (IN_REGISTERS + depth) + k);
        shared.weights[warpgroup][depth][(k / 8) * 512 + line * 8 + k % 8] = half(value);
    }
    if (threadIdx.x == 0) {
        for (u32 chunk = 0; chunk < CHUNKS; chunk++) {
            barrier_init(full + 8 * chunk, BULK ? 1 : LOADERS / 32);
            barrier_init(shared_address(shared.copied + chunk), 1);
        }
        barrier_init(empty, MULTIPLIERS / 32);
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();

    if (warp >= MULTIPLIERS / 32) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LOADER_REGISTERS));
        u32 parities = 0; // of copies, by chunk
        for (u32 taken = 1; taken < steps; taken++) {
            if (taken > 1) barrier_wait(empty, taken & 1);
            const u16* from = told + step(taken - 1) * told_apart;
            if (BULK) bring_by_copies(shared, from, full, parities);
            else bring(shared, from, full);
        }
        return;
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MULTIPLIER_REGISTERS));
    const u32 warpgroup = warp / 4, g = lane / 4, q = lane % 4, odd = g & 1;
    const u32 own = warpgroup * 16 + warp % 4 * 4 + g / 2, unit = block * 32 + own; // its unit, of the block's and of all
    u32 w[IN_REGISTERS][4];
#pragma unroll
    for (u32 depth = 0; depth < IN_REGISTERS; depth++)
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 line = 16 * warp + g + 8 * (i % 2), k = 16 * depth + 2 * q + 8 * (i / 2);
            w[depth][i] = pack(weight(line, k), weight(line, k + 1));
        }
    float bias[4];
#pragma unroll
    for (u32 gate = 0; gate < 4; gate++) {
        u64 at = (u64)direction * params_apart + gate * n + unit;
        bias[gate] = unit < n ? b_ih[at] + b_hh[at] : 0;
    }
    // After the neighbours' exchange a thread has all gates of its unit in row 2q + odd of each 8.
    const u32 row_in = 2 * q + odd;
    float cell[COLUMNS];
    u32 until[COLUMNS];
#pragma unroll
    for (u32 j = 0; j < COLUMNS; j++) {
        u32 row = row0 + 8 * j + row_in;
        cell[j] = 0;
        until[j] = row < rows ? run[row] : 0;
    }
    gates += ((u64)direction * steps * rows * N + unit) * 4;
    if (tokens) table += ((u64)direction * symbols * N + unit) * 4;
    // A step of zeros lies before the first and behind the last of c and h. What a warp writes is 4 units of each row.
    const u32 first_unit = block * 32 + own / 4 * 4;
    c += ((u64)direction * (steps + 2) * rows + row0) * N + first_unit;
    h += (u64)row0 * width + first_unit;
    told += first_unit / 8 * NB * 8 + first_unit % 8;
    u16 *h_stage = shared.stage[warp][0], *c_stage = shared.stage[warp][1];
    // What x gives, a step ahead; tokens two steps ahead.
    uint2 from_x[COLUMNS];
    u32 token[COLUMNS];
    auto look_at_tokens = [&](u32 taken) {
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j++) {
            u32 row = row0 + 8 * j + row_in;
            token[j] = row < rows && taken < steps ? tokens[step(taken) * rows + row] : NONE;
        }
    };
    auto look_at_x = [&](u32 taken) {
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j++) {
            u32 row = row0 + 8 * j + row_in;
            u64 slot = (u64)step(taken) * rows + row;
            const u16* from = tokens ? table + (u64)token[j] * N * 4 : gates + slot * N * 4;
            bool real = tokens ? token[j] < symbols : row < rows && taken < steps;
            from_x[j] = real ? *(const uint2*)from : make_uint2(0, 0);
        }
    };
    if (tokens) look_at_tokens(0);
    look_at_x(0);
    if (tokens) look_at_tokens(1);
    const u64 weights_at = tiles(shared_address(shared.weights[warpgroup]), 64), h_at = tiles(shared_address(shared.h), NB);

    for (u32 taken = 0; taken < steps; taken++) {
        const u32 s = step(taken);
        float sum[SUMS];
        if (taken == 0) { // h is zero
#pragma unroll
            for (u32 i = 0; i < SUMS; i++) sum[i] = 0;
        } else {
            // Opaque, or the compiler computes all descriptors beforehand and has no room for them.
            u32 weights_low = (u32)weights_at, h_low = (u32)h_at;
            asm volatile("" : "+r"(weights_low), "+r"(h_low));
            pinned(sum);
#pragma unroll
            for (u32 depth = 0; depth < DEPTH; depth++) {
                if (depth % (CHUNK / 16) == 0) {
                    barrier_wait(full + 8 * (depth / (CHUNK / 16)), taken - 1 & 1);
                    products_fence();
                }
                u64 b = with_lower(h_at, h_low + depth * 2 * NB);
                if (depth < IN_REGISTERS) product(sum, w[depth], b, depth > 0);
                else product(sum, with_lower(weights_at, weights_low + (depth - IN_REGISTERS) * 128), b, depth > 0);
            }
            products_commit();
            products_wait<0>();
            pinned(sum);
            __syncwarp();
            if (lane == 0) barrier_arrive(empty);
        }
        uint2 packed[COLUMNS];
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j++) {
            // Even lines have i and f of rows 2q and 2q + 1, odd ones g and o: each keeps one row and gives the other away.
            float give0 = odd ? sum[4 * j] : sum[4 * j + 1], give1 = odd ? sum[4 * j + 2] : sum[4 * j + 3];
            float got0 = __shfl_xor_sync(~0u, give0, 4), got1 = __shfl_xor_sync(~0u, give1, 4);
            float i = (odd ? got0 : sum[4 * j]) + low(from_x[j].x) + bias[0];
            float f = (odd ? got1 : sum[4 * j + 2]) + high(from_x[j].x) + bias[1];
            float g = (odd ? sum[4 * j + 1] : got0) + low(from_x[j].y) + bias[2];
            float o = (odd ? sum[4 * j + 3] : got1) + high(from_x[j].y) + bias[3];
            float h_new = 0;
            if (s < until[j]) {
                i = fast_sigmoid(i), f = fast_sigmoid(f), g = fast_tanh(g), o = fast_sigmoid(o);
                cell[j] = f * cell[j] + i * g;
                h_new = o * fast_tanh(cell[j]);
            } else {
                i = f = g = o = cell[j] = 0;
            }
            h_stage[(8 * j + row_in) * 4 + own % 4] = half(h_new);
            c_stage[(8 * j + row_in) * 4 + own % 4] = half(cell[j]);
            packed[j] = make_uint2(pack(i, f), pack(g, o));
        }
        __syncwarp();
        // First what others wait for.
#pragma unroll
        for (u32 row = lane; row < NB; row += 32) {
            show2(told + s * told_apart + row * 8, *(const uint2*)(h_stage + row * 4));
        }
#pragma unroll
        for (u32 row = lane; row < NB; row += 32) {
            if (row0 + row >= rows) break;
            *(uint2*)(h + ((u64)(s + 1) * rows + row) * width) = *(const uint2*)(h_stage + row * 4);
            if (keep) *(uint2*)(c + ((u64)(s + 1) * rows + row) * N) = *(const uint2*)(c_stage + row * 4);
        }
        if (keep) {
#pragma unroll
            for (u32 j = 0; j < COLUMNS; j++) {
                u32 row = row0 + 8 * j + row_in;
                if (row < rows) *(uint2*)(gates + ((u64)s * rows + row) * N * 4) = packed[j];
            }
        }
        look_at_x(taken + 1);
        if (tokens) look_at_tokens(taken + 2);
        __syncwarp(); // the stage has been read
    }
}
