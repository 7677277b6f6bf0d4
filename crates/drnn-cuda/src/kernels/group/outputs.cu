// Outputs, their losses, and the gradients of those: a thread per position.
//
//   y = W_o h + b_o        losses (lanes, 32 blocks, 3): loss, targets that count, hits
//
// d_outputs are f16, gradients of the sum of losses.

extern "C" __global__ void group_outputs(const GroupOutputs p) {
    __shared__ double sums[256];
    __shared__ float w[OUT][DIRECTIONS * N];
    const u32 steps = p.steps, elements = p.elements;
    const u32 lane_id = blockIdx.y, rows = p.chunks * ROWS, delay = steps - elements;
    const Task task = p.tasks[lane_id];
    if (!has_batch(task, p.progress[lane_id])) return;
    const float* w_o = p.params + (u64)lane_id * PARAMETERS + W_OUT;
    const float* bias = p.params + (u64)lane_id * PARAMETERS + B_OUT;
    for (u32 i = threadIdx.x; i < OUT * DIRECTIONS * N; i += blockDim.x) (&w[0][0])[i] = w_o[i];
    __syncthreads();
    double loss = 0, count = 0, right = 0;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < elements * rows;
         at += gridDim.x * blockDim.x) {
        const u32 element = at / rows, row = at % rows, s = element + delay;
        const u32 sequence = sequence_of(task, p.progress[lane_id].cursor, row);
        float y[OUT], d[OUT];
        for (u32 j = 0; j < OUT; j++) y[j] = bias[j], d[j] = 0;
        for (u32 direction = 0; direction < DIRECTIONS; direction++) {
            const u64 block = (u64)(lane_id * DIRECTIONS + direction) * p.chunks + row / ROWS;
            const u32 image = 1 + (direction ? steps - 1 - s : s);
            const u8* h = p.h_images + (block * (steps + 1) + image) * H_IMAGE + row % ROWS * 16;
            for (u32 group = 0; group < (N + 7) / 8; group++) {
                const uint4 eight = *(const uint4*)(h + group * GROUP_BYTES);
                const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
                for (u32 i = 0; i < 8; i++) {
                    const u32 unit = 8 * group + i;
                    const float value = i % 2 ? high(pairs[i / 2]) : low(pairs[i / 2]);
                    if (unit < N)
                        for (u32 j = 0; j < OUT; j++) y[j] += w[j][direction * N + unit] * value;
                }
            }
        }
        const u64 target_at = (u64)(sequence == NONE ? 0 : sequence) * elements + element;
        if (CLASSES) {
            const u32 own = sequence == NONE ? NONE : task.y[target_at];
            if (own != NONE) {
                float largest = y[0], total = 0, at_own = 0;
                for (u32 j = 1; j < OUT; j++) largest = fmaxf(largest, y[j]);
                for (u32 j = 0; j < OUT; j++) total += d[j] = expf(y[j] - largest);
                for (u32 j = 0; j < OUT; j++) {
                    d[j] = d[j] / total - (j == own ? 1.0f : 0.0f);
                    if (j == own) at_own = y[j];
                }
                loss += logf(total) - (at_own - largest);
                count += 1;
                right += at_own == largest;
            }
        } else if (sequence != NONE) {
            for (u32 j = 0; j < OUT; j++) {
                const float target = __uint_as_float(task.y[target_at * OUT + j]);
                if (isnan(target)) continue;
                d[j] = y[j] - target; // gradient of half the square
                loss += d[j] * d[j];
                count += 1;
            }
        }
        const u64 to = ((u64)lane_id * elements * rows + at) * OUT;
        for (u32 j = 0; j < OUT; j++) {
            p.d_outputs[to + j] = half(d[j]);
            if (p.outputs) p.outputs[to + j] = y[j];
        }
    }
    loss = block_sum(loss, sums);
    count = block_sum(count, sums);
    right = block_sum(right, sums);
    if (threadIdx.x == 0) {
        double* to = p.losses + (lane_id * 32 + blockIdx.x) * 3;
        to[0] = loss, to[1] = count, to[2] = right;
    }
}
