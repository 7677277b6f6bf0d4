// The LSTM cell, given its gates' pre-activations: the only copy of its arithmetic.
//
//   c = f c' + i g        h = o tanh(c)        i, f, o: sigmoid    g: tanh
//
// `Activation` supplies `sigmoid` and `tanh`: exact ones for f32 (cells.cu), `tanh.approx` where
// operands are f16. The order of operations is part of the contract: results are bit-reproducible.

struct LstmGates {
    float i, f, g, o;
};

struct FastActivation {
    static __device__ __forceinline__ float sigmoid(float x) { return fast_sigmoid(x); }
    static __device__ __forceinline__ float tanh(float x) { return fast_tanh(x); }
};

// Activates the gates in place, advances the cell state and returns h.
template <class Activation>
__device__ __forceinline__ float lstm_cell_forward(LstmGates& gates, float& c) {
    gates.i = Activation::sigmoid(gates.i);
    gates.f = Activation::sigmoid(gates.f);
    gates.g = Activation::tanh(gates.g);
    gates.o = Activation::sigmoid(gates.o);
    c = gates.f * c + gates.i * gates.g;
    return gates.o * Activation::tanh(c);
}

// Gradients of the pre-activations, from the activated gates, dh, and the cell state after (c) and
// before (c_before) the step. `dc` holds the gradient that step s + 1 passed to c, and receives the
// one for c_before.
template <class Activation>
__device__ __forceinline__ LstmGates
lstm_cell_backward(const LstmGates& gates, float dh, float& dc, float c, float c_before) {
    const float i = gates.i, f = gates.f, g = gates.g, o = gates.o;
    const float tanh_c = Activation::tanh(c);
    const float d = dc + dh * o * (1 - tanh_c * tanh_c);
    dc = d * f;
    return {
        d * g * i * (1 - i), d * c_before * f * (1 - f), d * i * (1 - g * g),
        dh * tanh_c * o * (1 - o)};
}

// The same gradients with products factored for fewer instructions. They round differently, so the
// two forms are not interchangeable: group_backward.cu uses this one.
template <class Activation>
__device__ __forceinline__ LstmGates
lstm_cell_backward_factored(const LstmGates& gates, float dh, float& dc, float c, float c_before) {
    const float i = gates.i, f = gates.f, g = gates.g, o = gates.o;
    const float tanh_c = Activation::tanh(c);
    const float d_o = dh * o;
    const float d = dc + d_o * (1 - tanh_c * tanh_c);
    dc = d * f;
    return {
        d * g * (i - i * i), d * c_before * (f - f * f), d * (i - i * g * g),
        d_o * tanh_c * (1 - o)};
}
