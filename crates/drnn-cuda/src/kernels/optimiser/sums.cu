// Sums over many numbers, in an order that never changes: partial sums by block, then over blocks.

// partial (blocks, 2): loss and hits
extern "C" __global__ void sum_losses(const float* losses, const u32* hits, double* partial, u32 positions) {
    __shared__ double shared[256];
    double loss = 0, hit = 0;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < positions; i += gridDim.x * blockDim.x) {
        loss += losses[i];
        hit += hits[i];
    }
    loss = block_sum(loss, shared);
    hit = block_sum(hit, shared);
    if (threadIdx.x == 0) partial[2 * blockIdx.x] = loss, partial[2 * blockIdx.x + 1] = hit;
}

// partial (blocks): squares
extern "C" __global__ void sum_squares(const float* values, double* partial, u32 count) {
    __shared__ double shared[256];
    // Eight at a time, so that as many are on their way from memory.
    double sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    const u32 first = blockIdx.x * blockDim.x + threadIdx.x, apart = gridDim.x * blockDim.x;
    for (u32 i = first; i < count; i += 8 * apart) {
#pragma unroll
        for (u32 k = 0; k < 8; k++) {
            double value = i + k * apart < count ? values[i + k * apart] : 0;
            sums[k] += value * value;
        }
    }
    double sum = 0;
    for (u32 k = 0; k < 8; k++) sum += sums[k];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// partial (chunks, columns): sums over a chunk of the rows of values (rows, columns). A block has 32 columns by 8 rows of threads.
extern "C" __global__ void sum_columns(const float* values, float* partial, u32 rows, u32 columns) {
    __shared__ float shared[8][33];
    u32 lane = threadIdx.x % 32, strand = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    u32 each = (rows + gridDim.y - 1) / gridDim.y, first = blockIdx.y * each, end = min(rows, first + each);
    float sum = 0;
    if (column < columns) {
        for (u32 row = first + strand; row < end; row += 8) sum += values[(u64)row * columns + column];
    }
    shared[strand][lane] = sum;
    __syncthreads();
    if (strand == 0 && column < columns) {
        for (u32 other = 1; other < 8; other++) sum += shared[other][lane];
        partial[(u64)blockIdx.y * columns + column] = sum;
    }
}

// sums (columns), and the same into `again` where it is not null
extern "C" __global__ void sum_chunks(const float* partial, float* sums, float* again, u32 chunks, u32 columns) {
    u32 column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float sum = 0;
    for (u32 chunk = 0; chunk < chunks; chunk++) sum += partial[(u64)chunk * columns + column];
    sums[column] = sum;
    if (again) again[column] = sum;
}
