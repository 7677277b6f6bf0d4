// The cells of persistent recurrences, all in f32. A unit has four slots, one row of the weights
// each; slots that a cell does not use are zero.
//
//          slots                          state    h
//   lstm   i, f, g, o                     c        lstm.cuh
//   gru    r, z, W_hn h' + b_hn, x_n      h        n + z (h' - n)     n = tanh(x_n + r slot 2)
//   rnn    sum, -, -, -                   h        tanh(sum)
//
// `cell_forward` replaces the slots' sums by what `cell_backward` needs of them, updates the state
// and returns h. `cell_backward` takes dh, the gradient that step s + 1 left in d_state, and the
// states after and before the step. It replaces the slots by their gradients and leaves in d_state
// the gradient for step s - 1.

#define LSTM 0
#define GRU 1
#define RNN 2

__device__ __forceinline__ float cell_forward(float (&slots)[4], float& state) {
#if CELL == LSTM
    LstmGates gates = {slots[0], slots[1], slots[2], slots[3]};
    const float h = lstm_cell_forward<FastActivation>(gates, state);
    slots[0] = gates.i, slots[1] = gates.f, slots[2] = gates.g, slots[3] = gates.o;
    return h;
#elif CELL == GRU
    slots[0] = fast_sigmoid(slots[0]), slots[1] = fast_sigmoid(slots[1]);
    slots[2] = clamp_to_half(slots[2]);
    slots[3] = fast_tanh(slots[3] + slots[0] * slots[2]);
    return state = slots[3] + slots[1] * (state - slots[3]);
#else
    return state = slots[0] = fast_tanh(slots[0]);
#endif
}

__device__ __forceinline__ void cell_backward(
    float (&slots)[4], float dh, float& d_state, float state, float before) {
#if CELL == LSTM
    const LstmGates gates = {slots[0], slots[1], slots[2], slots[3]};
    const LstmGates d = lstm_cell_backward<FastActivation>(gates, dh, d_state, state, before);
    slots[0] = d.i, slots[1] = d.f, slots[2] = d.g, slots[3] = d.o;
#elif CELL == GRU
    float r = slots[0], z = slots[1], from_h = slots[2], n = slots[3];
    dh += d_state;
    slots[3] = dh * (1 - z) * (1 - n * n);
    slots[0] = slots[3] * from_h * r * (1 - r);
    slots[1] = dh * (before - n) * z * (1 - z);
    slots[2] = slots[3] * r;
    d_state = dh * z;
#else
    slots[0] = dh * (1 - slots[0] * slots[0]);
    slots[1] = slots[2] = slots[3] = d_state = 0;
#endif
}
