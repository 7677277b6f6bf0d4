// The input of a tagger's word network, and its gradient.
//
//   x_t = [e_w ; v_w]      e_w the last states of the char network for the word's spelling,
//                          v_w the word's vector
//
// Every spelling of a batch has one row in the char network's batch, wherever it occurs; its
// gradient is the sum over its occurrences. Lists of occurrences are in ascending order, and one
// thread adds all of a value, so sums have a fixed order.
//
// Encodings are (directions, spellings, n): column j of a word's encoding is unit j % n of
// direction j / n.

__device__ __forceinline__ u32 thread_id() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Where column `column` of the encoding in row `row` is.
template <class Params>
__device__ __forceinline__ u64 encoding_place(const Params& p, u32 row, u32 column) {
    return ((u64)(column / p.n) * p.spellings + row) * p.n + column % p.n;
}

// x (slots, encoding + width), where slots = T B; zeros after a sentence's end, where the word is
// NONE. A thread per value.
extern "C" __global__ void join_words(const JoinWords p) {
    const u32 at = thread_id(), q = p.encoding + p.width;
    if (at >= p.slots * q) return;
    const u32 slot = at / q, column = at % q, word = p.words[slot];
    float x = 0;
    if (word != NONE) {
        if (column < p.encoding) x = p.encodings[encoding_place(p, p.rows[slot], column)];
        else x = p.vectors[(u64)word * p.width + column - p.encoding];
    }
    p.x[at] = x;
}

// The sum of rows slots[starts[i] .. starts[i + 1]] of d_x (slots, q), in this order.
__device__ __forceinline__ float sum_of_slots(
    const u32* starts, const u32* slots, const float* d_x, u32 i, u32 q, u32 column) {
    float sum = 0;
    for (u32 k = starts[i]; k < starts[i + 1]; k++) sum += d_x[(u64)slots[k] * q + column];
    return sum;
}

// d_encodings (directions, spellings, n): a thread per value; zeros for rows that only pad.
extern "C" __global__ void sum_encodings(const SumEncodings p) {
    const u32 at = thread_id();
    if (at >= p.spellings * p.encoding) return;
    const u32 row = at / p.encoding, column = at % p.encoding;
    p.d_encodings[encoding_place(p, row, column)] =
        sum_of_slots(p.starts, p.slots, p.d_x, row, p.q, column);
}

// Rows `words` (count) of d_vectors (words, width), which are distinct: a thread per value.
extern "C" __global__ void sum_vectors(const SumVectors p) {
    const u32 at = thread_id();
    if (at >= p.count * p.width) return;
    const u32 i = at / p.width, column = at % p.width;
    p.d_vectors[(u64)p.words[i] * p.width + column] =
        sum_of_slots(p.starts, p.slots, p.d_x, i, p.encoding + p.width, p.encoding + column);
}
