// Takes a batch from data that lie in device memory, in the layout that `step/staging.rs` writes.
//
//   parts[row]   .x first element   .y elements that are read   .z elements whose targets count
//                .w time steps
//
// A warp per (step, row) pair: its inputs, zeros after the end, and its targets, `absent` where they
// do not count.
extern "C" __global__ void take_batch(const TakeBatch p) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 pair = thread / 32, lane = thread % 32;
    const uint4* parts = (const uint4*)p.parts;
    if (thread < 8) p.to_header[thread] = p.header[thread];
    if (thread < p.rows) p.to_run[thread] = parts[thread].w;
    if (pair >= p.steps * p.rows) return;
    u32 step = pair / p.rows, row = pair % p.rows;
    uint4 part = parts[row];
    u64 from = (u64)part.x + step, to = pair;
    for (u32 k = lane; k < p.q; k += 32) {
        p.to_x[to * p.q + k] = step < part.y ? (u32)__float_as_int(p.x[from * p.q + k]) : 0;
    }
    if (step >= p.outputs) return;
    for (u32 k = lane; k < p.m; k += 32) {
        p.to_y[to * p.m + k] = step < part.z ? p.y[from * p.m + k] : p.absent;
    }
}
