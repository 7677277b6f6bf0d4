// What answers are worth, and the gradient of that.
//
//   cross-entropy   -log softmax(y)[class]      d y = (softmax(y) - onehot(class)) / count
//   squared error   (y - target)^2              d y = 2 (y - target) / count
//
// A warp per position.

__device__ __forceinline__ float warp_max(float x) {
    for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, lane));
    return x;
}

__device__ __forceinline__ float warp_sum(float x) {
    for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
    return x;
}

// answers (positions, m) without bias get it; zeros behind a sequence's end, where step + delay >= run[row]
extern "C" __global__ void answer(
    float* answers, const float* bias, const u32* run, u32 delay, u32 rows, u32 positions, u32 m) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= positions * m) return;
    u32 step = at / m / rows, row = at / m % rows;
    answers[at] = step + delay < run[row] ? answers[at] + bias[at % m] : 0;
}

// losses and hits: one per position
extern "C" __global__ void cross_entropy(
    const Header* header, const float* answers, const u32* classes, float* d_answers, float* losses, u32* hits, u32 positions,
    u32 m) {
    u32 position = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (position >= positions) return;
    const float* y = answers + (u64)position * m;
    float* d = d_answers + (u64)position * m;
    u32 own = classes[position];
    if (own == NONE) {
        for (u32 j = lane; j < m; j += 32) d[j] = 0;
        if (lane == 0) losses[position] = 0, hits[position] = 0;
        return;
    }
    float largest = -infinity();
    for (u32 j = lane; j < m; j += 32) largest = fmaxf(largest, y[j]);
    largest = warp_max(largest);
    float total = 0;
    for (u32 j = lane; j < m; j += 32) total += expf(y[j] - largest);
    total = warp_sum(total);
    float weight = header->weight;
    for (u32 j = lane; j < m; j += 32) {
        float share = expf(y[j] - largest) / total * weight;
        d[j] = j == own ? share - weight : share;
    }
    if (lane == 0) {
        losses[position] = logf(total) - (y[own] - largest);
        hits[position] = y[own] == largest;
    }
}

// targets (positions, m); no number does not count
extern "C" __global__ void squared_error(
    const Header* header, const float* answers, const float* targets, float* d_answers, float* losses, u32* hits, u32 positions,
    u32 m) {
    u32 position = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (position >= positions) return;
    float sum = 0, weight = header->weight;
    for (u32 j = lane; j < m; j += 32) {
        u64 at = (u64)position * m + j;
        float error = isnan(targets[at]) ? 0 : answers[at] - targets[at];
        sum += error * error;
        d_answers[at] = weight * error;
    }
    sum = warp_sum(sum);
    if (lane == 0) losses[position] = sum, hits[position] = 0;
}
