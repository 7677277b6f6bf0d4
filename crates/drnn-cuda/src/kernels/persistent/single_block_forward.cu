// Forward pass of a recurrence of up to 128 units: all steps in one launch, a block per NB rows of
// the batch. Parameters and arrays are those of forward.cu, without an h exchange:
//
//   slots_s = x_s W_ih^T + b + h_{s-1} W_hh^T          cell arithmetic on the four slots: cell.cuh
//
//   packed (lanes, 4 slots, K_STEPS, THREADS) 16 bytes each: as `pack_single_block` orders them
//   gates (S, B, N, 4) f16: x W_ih^T, replaced by what backward needs; with TABLE, x W_ih^T is a
//   row of table (lanes, symbols, N, 4)
//
// With FROM_STATES, sequences begin with given states, as in forward.cu: those of h are at both
// ends of h.

static const u32 K_STEPS = N / 16;  // of products: 16 units of h each
static const u32 H_STRIDE = N + 8;  // 8 more: rows of `ldmatrix` fall into distinct banks

struct Shared {
    u16 h[2][8][H_STRIDE]; // double buffer: h of the step before, by column of the products
#if TABLE
    u32 ahead[STAGES][EACH][THREADS]; // symbols
    u16 table[TABLE][N][4];
#else
    uint4 ahead[STAGES][EACH][THREADS]; // slots of two units
#endif
};
static_assert(sizeof(Shared) == SHARED, "must equal the size in persistent/spec.rs");

#if FROM_STATES
extern "C" __global__ void __launch_bounds__(THREADS, 1)
persistent_forward_from_states(const __grid_constant__ PersistentForwardFromStates p)
#else
extern "C" __global__ void __launch_bounds__(THREADS, 1)
persistent_forward(const __grid_constant__ PersistentForward p)
#endif
{
    Shared& shared = *(Shared*)dynamic_shared();
    const u32 steps = p.steps, rows = p.rows, symbols = p.symbols;
    const u32 group = blockIdx.x % p.groups, lane_id = blockIdx.x / p.groups;
    const bool reverse = lane_id > 0;
    const Place own(p.first_row + group * NB, rows);
    auto step = [&](u32 t) { return reverse ? steps - 1 - t : t; };

    u32 w[4][K_STEPS][4];
    const uint4* const packed = p.packed + (u64)lane_id * 4 * K_STEPS * THREADS + threadIdx.x;
#pragma unroll
    for (u32 slot = 0; slot < 4; slot++)
#pragma unroll
        for (u32 k_step = 0; k_step < K_STEPS; k_step++) {
            const uint4 v = packed[(slot * K_STEPS + k_step) * THREADS];
            w[slot][k_step][0] = v.x, w[slot][k_step][1] = v.y;
            w[slot][k_step][2] = v.z, w[slot][k_step][3] = v.w;
        }
    const float4* const biases = (const float4*)(p.bias + ((u64)lane_id * N + own.unit) * 4);
    const float4 bias[2] = {biases[0], biases[1]};
    u16* const gates = p.gates + p.gates_stride * lane_id + (u64)own.unit * 4;
    u16* const h = p.h + p.h_stride * lane_id + own.unit;
    u16* const c = p.c + p.c_stride * lane_id + own.unit;

    for (u32 i = threadIdx.x; i < sizeof shared.h / 4; i += THREADS) ((u32*)shared.h)[i] = 0;
#if TABLE
    for (u32 i = threadIdx.x; i < symbols * N / 2; i += THREADS) {
        ((uint4*)shared.table)[i] = ((const uint4*)p.table)[(u64)lane_id * symbols * N / 2 + i];
    }
#endif
    __syncthreads();

    float state[EACH][2];
    u32 h_before[EACH], row_length[EACH]; // two units of h; steps of the row's sequence
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
        const u32 row = own.row(e);
        row_length[e] = own.exists(e) ? p.run[row] : 0;
        state[e][0] = state[e][1] = 0;
        h_before[e] = 0;
        if (!own.exists(e)) continue;
        const u64 end = (u64)(steps + 1) * rows + row;
#if FROM_STATES
        h_before[e] = *(const u32*)(h + end * p.width);
        *(u32*)&shared.h[0][own.column(e)][own.unit] = h_before[e];
#pragma unroll
        for (u32 i = 0; i < 2; i++)
            if (p.first && own.unit + i < p.n)
                state[e][i] = p.first[((u64)lane_id * rows + row) * p.n + own.unit + i];
#else
        // h and c have a step of zeros before the first and after the last.
        *(u32*)(h + (u64)row * p.width) = *(u32*)(h + end * p.width) = 0;
        if (p.save) *(u32*)(c + (u64)row * N) = *(u32*)(c + end * N) = 0;
#endif
    }

    // Starts the copy of step t's input, if there is such a step, and counts as a group in any case.
    auto copy_x = [&](u32 t) {
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            if (t >= steps || !own.exists(e)) continue;
            const u64 position = (u64)step(t) * rows + own.row(e);
            auto* const to = &shared.ahead[t % STAGES][e][threadIdx.x];
#if TABLE
            cp_async<4>(to, p.tokens + position);
#else
            cp_async<16>(to, gates + position * N * 4);
#endif
        }
        cp_async_commit();
    };
    // Its slots of x W_ih^T; what stands in rows that do not exist is not used.
    auto x_at = [&](u32 t, u32 e) {
        const auto ahead = shared.ahead[t % STAGES][e][threadIdx.x];
#if TABLE
        if (ahead >= symbols) return make_uint4(0, 0, 0, 0);
        return *(const uint4*)shared.table[ahead][own.unit];
#else
        return ahead;
#endif
    };
    // Accumulators begin with x W_ih^T + b; by slot.
    float sum[4][4];
    auto begin_sums = [&](const uint4 (&x)[EACH]) {
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            const u32 of_units[2][2] = {{x[e].x, x[e].y}, {x[e].z, x[e].w}};
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                sum[0][2 * i + e] = low(of_units[i][0]) + bias[i].x;
                sum[1][2 * i + e] = high(of_units[i][0]) + bias[i].y;
                sum[2][2 * i + e] = low(of_units[i][1]) + bias[i].z;
                sum[3][2 * i + e] = high(of_units[i][1]) + bias[i].w;
            }
        }
    };
#pragma unroll
    for (u32 slot = 0; slot < 4; slot++)
#pragma unroll
        for (u32 e = 0; e < 4; e++) sum[slot][e] = 0;
    for (u32 t = 0; t + 1 < STAGES; t++) copy_x(t);
    uint4 x[EACH];
    cp_async_wait<STAGES - 2>();
#pragma unroll
    for (u32 e = 0; e < EACH; e++) x[e] = x_at(0, e);
    begin_sums(x);

    const u32 h_at = lane_row(&shared.h[0][0][0], H_STRIDE);
    for (u32 t = 0; t < steps; t++) {
        const u32 s = step(t);
        __syncthreads(); // h of the step before is in shared memory
        const u32 from = h_at + t % 2 * (8 * H_STRIDE * 2);
#pragma unroll
        for (u32 k_step = 0; k_step < K_STEPS; k_step += 2) {
            u32 b[2][2];
            ldmatrix(b[0][0], b[0][1], b[1][0], b[1][1], from + k_step * 32);
#pragma unroll
            for (u32 i = 0; i < 2; i++)
#pragma unroll
                for (u32 slot = 0; slot < 4; slot++) mma(sum[slot], w[slot][k_step + i], b[i]);
        }
        copy_x(t + STAGES - 1);
        cp_async_wait<STAGES - 2>();
#pragma unroll
        for (u32 e = 0; e < EACH; e++) x[e] = x_at(t + 1, e);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            float h_new[2];
            u32 saved[2][2];
#pragma unroll
            for (u32 i = 0; i < 2; i++) {
                float slots[4] = {
                    sum[0][2 * i + e], sum[1][2 * i + e], sum[2][2 * i + e], sum[3][2 * i + e]};
                const float held = state[e][i];
                h_new[i] = cell_forward(slots, state[e][i]);
                if (s >= row_length[e]) {
                    slots[0] = slots[1] = slots[2] = slots[3] = h_new[i] = 0;
                    state[e][i] = FROM_STATES ? held : 0;
                }
                saved[i][0] = pack(slots[0], slots[1]), saved[i][1] = pack(slots[2], slots[3]);
            }
            u32 h_pair = pack(h_new[0], h_new[1]);
            // The reverse direction holds first states until the row begins.
            if (FROM_STATES && reverse && s >= row_length[e]) h_pair = h_before[e];
            h_before[e] = h_pair;
            *(u32*)&shared.h[(t + 1) % 2][own.column(e)][own.unit] = h_pair;
            if (!own.exists(e)) continue;
            const u64 position = (u64)s * rows + own.row(e), after = position + rows;
            *(u32*)(h + after * p.width) = h_pair;
            if (!p.save) continue;
            *(u32*)(c + after * N) = pack(state[e][0], state[e][1]);
            *(uint4*)(gates + position * N * 4) =
                make_uint4(saved[0][0], saved[0][1], saved[1][0], saved[1][1]);
        }
        begin_sums(x);
    }
#if FROM_STATES
#pragma unroll
    for (u32 e = 0; e < EACH; e++)
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            if (!p.last || !own.exists(e) || own.unit + i >= p.n) continue;
            p.last[((u64)lane_id * rows + own.row(e)) * p.n + own.unit + i] = state[e][i];
        }
#endif
}
