// Embeddings: table lookup forward, sums by symbol backward.

// x (slots, e) from table (symbols, e), where slots = S B; zeros where the token is NONE
extern "C" __global__ void embed(const Embed p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.slots * p.e) return;
    u32 token = p.tokens[at / p.e];
    p.x[at] = token == NONE ? 0 : p.table[token * p.e + at % p.e];
}

// A block per (symbol, dimension): the sum of d_x over the slots of that symbol, which are
// by_symbol[starts[symbol] .. starts[symbol + 1]], in a fixed order.
extern "C" __global__ void embed_backward(const EmbedBackward p) {
    __shared__ double shared[128];
    u32 symbol = blockIdx.x, dimension = blockIdx.y;
    double sum = 0;
    for (u32 i = p.starts[symbol] + threadIdx.x; i < p.starts[symbol + 1]; i += blockDim.x) {
        sum += p.d_x[(u64)p.by_symbol[i] * p.e + dimension];
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) p.d_table[symbol * p.e + dimension] = (float)sum;
}
