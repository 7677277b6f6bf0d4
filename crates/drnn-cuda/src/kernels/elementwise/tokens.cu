// Embeddings: rows of a table forward, sums by symbol on the way back.

// x (slots, e) from table (symbols, e); zeros where there is no symbol
extern "C" __global__ void embed(const u32* tokens, const float* table, float* x, u32 slots, u32 e) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= slots * e) return;
    u32 token = tokens[at / e];
    x[at] = token == NONE ? 0 : table[token * e + at % e];
}

// A block per (symbol, dimension): the sum of d_x over the symbol's slots, by_symbol[starts[v] .. starts[v + 1]], in a fixed order.
extern "C" __global__ void embed_backward(
    const u32* starts, const u32* by_symbol, const float* d_x, float* d_table, u32 e) {
    __shared__ double shared[128];
    u32 symbol = blockIdx.x, dimension = blockIdx.y;
    double sum = 0;
    for (u32 i = starts[symbol] + threadIdx.x; i < starts[symbol + 1]; i += blockDim.x) {
        sum += d_x[(u64)by_symbol[i] * e + dimension];
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) d_table[symbol * e + dimension] = (float)sum;
}
