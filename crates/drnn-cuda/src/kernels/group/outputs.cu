// Answers, what they are worth, and the gradient of that: a thread per position.
//
//   y = W_o h + b        losses (lane, 32 blocks, 3): loss, targets that count, hits        d_answers in f16, of the sum

extern "C" __global__ void group_answers(
    const Task* tasks, const Progress* progress, const float* params, const u8* h_images, u16* d_answers, double* losses,
    float* shown_answers, u32 steps, u32 answers, u32 chunks) {
    __shared__ double sums[256];
    __shared__ float w[OUT][DIRECTIONS * N];
    const u32 owner = blockIdx.y, room = chunks * ROWS, delay = steps - answers;
    const Task task = tasks[owner];
    if (!at_work(task, progress[owner])) return;
    const float* w_o = params + (u64)owner * PARAMETERS + W_OUT;
    const float* bias = params + (u64)owner * PARAMETERS + B_OUT;
    for (u32 i = threadIdx.x; i < OUT * DIRECTIONS * N; i += blockDim.x) (&w[0][0])[i] = w_o[i];
    __syncthreads();
    double loss = 0, count = 0, right = 0;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < answers * room; at += gridDim.x * blockDim.x) {
        const u32 answer = at / room, row = at % room, s = answer + delay;
        const u32 sequence = sequence_of(task, progress[owner].cursor, row);
        float y[OUT], d[OUT];
        for (u32 j = 0; j < OUT; j++) y[j] = bias[j], d[j] = 0;
        for (u32 direction = 0; direction < DIRECTIONS; direction++) {
            const u64 place = (u64)(owner * DIRECTIONS + direction) * chunks + row / ROWS;
            const u32 image = 1 + (direction ? steps - 1 - s : s);
            const u8* h = h_images + (place * (steps + 1) + image) * H_IMAGE + row % ROWS * 16;
            for (u32 group = 0; group < (N + 7) / 8; group++) {
                const uint4 eight = *(const uint4*)(h + group * GROUP);
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
        const u64 element = (u64)(sequence == NONE ? 0 : sequence) * answers + answer;
        if (CLASSES) {
            const u32 own = sequence == NONE ? NONE : task.y[element];
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
                const float target = __uint_as_float(task.y[element * OUT + j]);
                if (isnan(target)) continue;
                d[j] = y[j] - target; // half of the square's
                loss += d[j] * d[j];
                count += 1;
            }
        }
        const u64 to = ((u64)owner * answers * room + at) * OUT;
        for (u32 j = 0; j < OUT; j++) {
            d_answers[to + j] = half(d[j]);
            if (shown_answers) shown_answers[to + j] = y[j];
        }
    }
    loss = block_sum(loss, sums);
    count = block_sum(count, sums);
    right = block_sum(right, sums);
    if (threadIdx.x == 0) {
        double* to = losses + (owner * 32 + blockIdx.x) * 3;
        to[0] = loss, to[1] = count, to[2] = right;
    }
}
