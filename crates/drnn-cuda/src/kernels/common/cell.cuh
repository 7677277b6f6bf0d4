// What cells make of their four slots, all in f32. A slot is a row of the weights; those that a cell does not need are zero.
//
//          slots                          state    h
//   lstm   i, f, g, o                     c        o tanh(c)          c = f c' + i g        i, f, o sigmoid, g tanh
//   gru    r, z, W_hn h' + b_hn, x_n      h        n + z (h' - n)     n = tanh(x_n + r (W_hn h' + b_hn))
//   rnn    sum, -, -, -                   h        tanh(sum)
//
// `cell_forward` leaves in the slots what `cell_backward` needs, and changes the state. `cell_backward` gets dh, what the step
// behind left in d_state, and the states after and before the step; it leaves the slots' gradients, and d_state for the step before.

#define LSTM 0
#define GRU 1
#define RNN 2

__device__ __forceinline__ float cell_forward(float (&slots)[4], float& state) {
#if CELL == LSTM
    slots[0] = fast_sigmoid(slots[0]), slots[1] = fast_sigmoid(slots[1]);
    slots[2] = fast_tanh(slots[2]), slots[3] = fast_sigmoid(slots[3]);
    state = slots[1] * state + slots[0] * slots[2];
    return slots[3] * fast_tanh(state);
#elif CELL == GRU
    slots[0] = fast_sigmoid(slots[0]), slots[1] = fast_sigmoid(slots[1]), slots[2] = bounded(slots[2]);
    slots[3] = fast_tanh(slots[3] + slots[0] * slots[2]);
    return state = slots[3] + slots[1] * (state - slots[3]);
#else
    return state = slots[0] = fast_tanh(slots[0]);
#endif
}

__device__ __forceinline__ void cell_backward(float (&slots)[4], float dh, float& d_state, float state, float before) {
#if CELL == LSTM
    float i = slots[0], f = slots[1], g = slots[2], o = slots[3], tanh_c = fast_tanh(state);
    float dc = d_state + dh * o * (1 - tanh_c * tanh_c);
    slots[0] = dc * g * i * (1 - i), slots[1] = dc * before * f * (1 - f), slots[2] = dc * i * (1 - g * g);
    slots[3] = dh * tanh_c * o * (1 - o);
    d_state = dc * f;
#elif CELL == GRU
    float r = slots[0], z = slots[1], from_h = slots[2], n = slots[3];
    dh += d_state;
    slots[3] = dh * (1 - z) * (1 - n * n);
    slots[0] = slots[3] * from_h * r * (1 - r), slots[1] = dh * (before - n) * z * (1 - z), slots[2] = slots[3] * r;
    d_state = dh * z;
#else
    slots[0] = dh * (1 - slots[0] * slots[0]);
    slots[1] = slots[2] = slots[3] = d_state = 0;
#endif
}
