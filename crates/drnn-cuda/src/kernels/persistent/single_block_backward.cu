// Backward pass of a recurrence of up to 128 units: all steps in one launch, a block per NB rows of
// the batch. Parameters and arrays are those of backward.cu, without partial sums:
//
//   dh_s = gradient from above + dslots_{s+1} W_hh        dslots from dh, slot by slot: cell.cuh
//
//   packed (lanes, K_STEPS, THREADS) 16 bytes each: as `pack_single_block` orders them
//   d_bias (lanes groups, N, 4) f32: sums over steps and rows
//
// With FROM_STATES, sequences begin with given states, as in backward.cu.

#if FROM_STATES
#define LIMITED(x) (x)
#else
#define LIMITED(x) clamp_to_half(x)
#endif

static const u32 K_STEPS = 4 * N / 16;  // of products: 16 slots each, the four of a unit in a row
static const u32 D_STRIDE = 4 * N + 8;  // 8 more: rows of `ldmatrix` fall into distinct banks
static const u32 CHAINS = 4;            // of dependent products

struct Shared {
    u16 d_slots[2][8][D_STRIDE]; // double buffer: of the step before, by column of the products
    // Read ahead, for two units each: saved slots, the state before the step, the gradient from
    // above.
    uint4 saved[STAGES][EACH][THREADS];
    u32 c[STAGES][EACH][THREADS], above[STAGES][EACH][THREADS];
};
static_assert(sizeof(Shared) == SHARED, "must equal the size in persistent/spec.rs");

#if FROM_STATES
extern "C" __global__ void __launch_bounds__(THREADS, 1)
persistent_backward_from_states(const __grid_constant__ PersistentBackwardFromStates p)
#else
extern "C" __global__ void __launch_bounds__(THREADS, 1)
persistent_backward(const __grid_constant__ PersistentBackward p)
#endif
{
    Shared& shared = *(Shared*)dynamic_shared();
    const u32 steps = p.steps, rows = p.rows;
    const u32 group = blockIdx.x % p.groups, lane_id = blockIdx.x / p.groups;
    const bool reverse = lane_id > 0;
    const Place own(p.first_row + group * NB, rows);
    auto step = [&](u32 t) { return reverse ? t : steps - 1 - t; };

    u32 w[K_STEPS][4];
    const uint4* const packed = p.packed + (u64)lane_id * K_STEPS * THREADS + threadIdx.x;
#pragma unroll
    for (u32 k_step = 0; k_step < K_STEPS; k_step++) {
        const uint4 v = packed[k_step * THREADS];
        w[k_step][0] = v.x, w[k_step][1] = v.y, w[k_step][2] = v.z, w[k_step][3] = v.w;
    }
    u16* const gates = p.gates + p.gates_stride * lane_id + (u64)own.unit * 4;
    const u16* const c = p.c + p.c_stride * lane_id + own.unit;
    const u16* const d_above = p.d_above + lane_id * N + own.unit;
    for (u32 i = threadIdx.x; i < sizeof shared.d_slots / 4; i += THREADS)
        ((u32*)shared.d_slots)[i] = 0;

    // Cell (e, i): row e, unit i of the thread's.
    float d_state[EACH][2], c_now[EACH][2], bias[2][4];
    u32 row_length[EACH]; // steps of the row's sequence
#pragma unroll
    for (u32 i = 0; i < 2; i++)
#pragma unroll
        for (u32 slot = 0; slot < 4; slot++) bias[i][slot] = 0;
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
        row_length[e] = own.exists(e) ? p.run[own.row(e)] : 0;
        const u64 at = (u64)(step(0) + 1) * rows + own.row(e);
        const u32 now = row_length[e] ? *(const u32*)(c + at * N) : 0;
        c_now[e][0] = low(now), c_now[e][1] = high(now);
        d_state[e][0] = d_state[e][1] = 0;
    }
#if FROM_STATES
    const float scale = p.header->weight;
    // A cell of the n units and B rows, and its place in arrays of the caller's.
    auto is_real = [&](u32 e, u32 i) { return own.exists(e) && own.unit + i < p.n; };
    auto state_at = [&](u32 e, u32 i) {
        return ((u64)lane_id * rows + own.row(e)) * p.n + own.unit + i;
    };
    // What arrives at the first state: d_h from the products of the step after it, and what the
    // cell passes on directly.
    auto first_h = [&](u32 e, u32 i, float d_h) {
        return scale * (CELL == GRU ? d_h + d_state[e][i] : d_h);
    };
#pragma unroll
    for (u32 e = 0; e < EACH; e++)
#pragma unroll
        for (u32 i = 0; i < 2; i++)
            if (CELL == LSTM && p.d_last_c && is_real(e, i))
                d_state[e][i] = p.d_last_c[state_at(e, i)] / scale;
#endif

    // Starts the copies of what step t reads, if there is such a step, and counts as a group in any
    // case.
    auto copy_saved = [&](u32 t) {
        const u32 s = step(t), stage = t % STAGES;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            if (t >= steps || !row_length[e]) continue;
            const u64 position = (u64)s * rows + own.row(e);
            const u64 before = (u64)(reverse ? s + 2 : s) * rows + own.row(e);
            cp_async<16>(&shared.saved[stage][e][threadIdx.x], gates + position * N * 4);
            cp_async<4>(&shared.c[stage][e][threadIdx.x], c + before * N);
            cp_async<4>(&shared.above[stage][e][threadIdx.x], d_above + position * p.width);
        }
        cp_async_commit();
    };
    // What the next step reads. Where a row does not exist it is not used.
    uint4 saved[EACH];
    u32 c_before[EACH], above[EACH];
    auto read_saved = [&](u32 t) {
        cp_async_wait<STAGES - 2>();
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            saved[e] = shared.saved[t % STAGES][e][threadIdx.x];
            c_before[e] = shared.c[t % STAGES][e][threadIdx.x];
            above[e] = shared.above[t % STAGES][e][threadIdx.x];
        }
    };
    for (u32 t = 0; t + 1 < STAGES; t++) copy_saved(t);

    const u32 d_at = lane_row(&shared.d_slots[0][0][0], D_STRIDE);
    // dslots W_hh of the step before step t. Value 2 i + e: unit i, row e.
    auto multiply = [&](u32 t, float (&d_h)[4]) {
        const u32 from = d_at + t % 2 * (8 * D_STRIDE * 2);
        float sum[CHAINS][4];
#pragma unroll
        for (u32 chain = 0; chain < CHAINS; chain++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) sum[chain][e] = 0;
#pragma unroll
        for (u32 k_step = 0; k_step < K_STEPS; k_step += 2) {
            u32 b[2][2];
            ldmatrix(b[0][0], b[0][1], b[1][0], b[1][1], from + k_step * 32);
            mma(sum[k_step % CHAINS], w[k_step], b[0]);
            mma(sum[(k_step + 1) % CHAINS], w[k_step + 1], b[1]);
        }
#pragma unroll
        for (u32 e = 0; e < 4; e++)
            d_h[e] = (sum[0][e] + sum[1][e]) + (sum[2][e] + sum[3][e]);
    };

    for (u32 t = 0; t < steps; t++) {
        const u32 s = step(t);
        read_saved(t);
        __syncthreads(); // dslots of the step before are in shared memory
        float d_h[4];
        multiply(t, d_h);
        copy_saved(t + STAGES - 1);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            const bool running = s < row_length[e];
            const u32 words[2][2] = {{saved[e].x, saved[e].y}, {saved[e].z, saved[e].w}};
            u32 packed_d[2][2];
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                float d[4] = {
                    low(words[i][0]), high(words[i][0]), low(words[i][1]), high(words[i][1])};
                const float before = i ? high(c_before[e]) : low(c_before[e]);
                const float held = d_state[e][i];
                float d_out = d_h[2 * i + e];
#if FROM_STATES
                const u32 length = row_length[e];
                if (length > 0 && is_real(e, i)) {
                    if (p.d_last_h && s == (reverse ? 0 : length - 1))
                        d_out += p.d_last_h[state_at(e, i)] / scale;
                    if (p.d_first_h && reverse && s == length)
                        p.d_first_h[state_at(e, i)] = first_h(e, i, d_out);
                }
#endif
                d_out += i ? high(above[e]) : low(above[e]);
                cell_backward(d, d_out, d_state[e][i], c_now[e][i], before);
                if (!running) d_state[e][i] = FROM_STATES ? held : 0;
                c_now[e][i] = before; // after a sequence's end too: the next step may be inside it
#pragma unroll
                for (u32 slot = 0; slot < 4; slot++) {
                    d[slot] = running ? LIMITED(d[slot]) : 0;
                    bias[i][slot] += d[slot];
                }
                packed_d[i][0] = pack(d[0], d[1]), packed_d[i][1] = pack(d[2], d[3]);
            }
            const uint4 all =
                make_uint4(packed_d[0][0], packed_d[0][1], packed_d[1][0], packed_d[1][1]);
            *(uint4*)&shared.d_slots[(t + 1) % 2][own.column(e)][own.unit * 4] = all;
            if (own.exists(e))
                *(uint4*)(gates + ((u64)s * rows + own.row(e)) * N * 4) = all;
        }
    }

#if FROM_STATES
    // What the first step of every row passes on.
    __syncthreads();
    float d_h[4];
    multiply(steps, d_h);
#pragma unroll
    for (u32 e = 0; e < EACH; e++)
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            if (!is_real(e, i)) continue;
            const u32 length = row_length[e];
            if (p.d_first_h && length == 0)
                p.d_first_h[state_at(e, i)] = p.d_last_h ? p.d_last_h[state_at(e, i)] : 0;
            else if (p.d_first_h && (!reverse || length == steps))
                p.d_first_h[state_at(e, i)] = first_h(e, i, d_h[2 * i + e]);
            if (p.d_first_c) p.d_first_c[state_at(e, i)] = scale * d_state[e][i];
        }
#endif
    // The four threads of a unit have its rows; every one of them computes the same sum.
    const u64 to = (u64)(lane_id * p.all_groups + p.first_group + group) * N + own.unit;
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
#pragma unroll
        for (u32 slot = 0; slot < 4; slot++) {
            bias[i][slot] += __shfl_xor_sync(~0u, bias[i][slot], 1);
            bias[i][slot] += __shfl_xor_sync(~0u, bias[i][slot], 2);
        }
        if (own.q > 0) continue;
        *(float4*)(p.d_bias + (to + i) * 4) =
            make_float4(bias[i][0], bias[i][1], bias[i][2], bias[i][3]);
    }
}
