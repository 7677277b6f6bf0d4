// Reductions in a fixed order: partial sums by block, then over blocks.

// partial (blocks, 2): loss and hits
extern "C" __global__ void sum_losses(const SumLosses p) {
    __shared__ double shared[256];
    double loss = 0, hit = 0;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < p.positions;
         i += gridDim.x * blockDim.x) {
        loss += p.losses[i];
        hit += p.hits[i];
    }
    loss = block_sum(loss, shared);
    hit = block_sum(hit, shared);
    if (threadIdx.x == 0) p.partial[2 * blockIdx.x] = loss, p.partial[2 * blockIdx.x + 1] = hit;
}

// partial (blocks): sums of squares
extern "C" __global__ void sum_squares(const SumSquares p) {
    __shared__ double shared[256];
    // Eight independent loads in flight per thread.
    double sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    const u32 first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    for (u32 i = first; i < p.count; i += 8 * stride) {
#pragma unroll
        for (u32 k = 0; k < 8; k++) {
            double value = i + k * stride < p.count ? p.values[i + k * stride] : 0;
            sums[k] += value * value;
        }
    }
    double sum = 0;
    for (u32 k = 0; k < 8; k++) sum += sums[k];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) p.partial[blockIdx.x] = sum;
}

// partial (chunks, columns): column sums over each chunk of the rows of values (rows, columns). A
// block has 32 columns by 8 rows of threads.
extern "C" __global__ void sum_columns(const SumColumns p) {
    __shared__ float shared[8][33];
    const u32 rows = p.rows, columns = p.columns;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    u32 each = (rows + gridDim.y - 1) / gridDim.y, first = blockIdx.y * each;
    u32 end = min(rows, first + each);
    float sum = 0;
    if (column < columns) {
        for (u32 row = first + warp; row < end; row += 8)
            sum += p.values[(u64)row * columns + column];
    }
    shared[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < columns) {
        for (u32 other = 1; other < 8; other++) sum += shared[other][lane];
        p.partial[(u64)blockIdx.y * columns + column] = sum;
    }
}

// sums (columns) of partial (chunks, columns); `copy`, unless null, receives the same
extern "C" __global__ void sum_chunks(const SumChunks p) {
    u32 column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= p.columns) return;
    float sum = 0;
    for (u32 chunk = 0; chunk < p.chunks; chunk++)
        sum += p.partial[(u64)chunk * p.columns + column];
    p.sums[column] = sum;
    if (p.copy) p.copy[column] = sum;
}
