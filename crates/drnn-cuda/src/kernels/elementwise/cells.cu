// One step of a recurrent cell in f32: a thread per (row, unit).
//
//   lstm   lstm.cuh, with gates = x W_ih^T + h' W_hh^T + b_ih + b_hh
//   gru    r, z = s(gates + b)   n = tanh(x_n + b_in + r (W_hn h' + b_hn))   h = (1 - z) n + z h'
//   rnn    h = tanh(gates + b)   or max(0, gates + b)
//
// `gates` holds the sums of the products (x W_ih^T + h' W_hh^T) and receives the activated gates;
// backward replaces those by their gradients. A row that has ended before this step (step >=
// run[row]) has h = c = 0 and passes no gradient on.
//
// With FROM_STATES, sequences begin with given states, the reverse direction of each at its own
// end. Where a row does not run, its states in memory stay as they are, and so do the gradients on
// their way to its first or last state; d_h then is zero or a part of the sum wherever the row
// runs, and the product that follows adds to it.

#ifndef FROM_STATES
#define FROM_STATES 0
#endif

struct ExactActivation {
    static __device__ __forceinline__ float sigmoid(float x) { return ::sigmoid(x); }
    static __device__ __forceinline__ float tanh(float x) { return tanhf(x); }
};

struct Place {
    u32 row, unit;
    bool inside, running;
};

__device__ __forceinline__ Place place(u32 rows, u32 n, u32 step, const u32* run) {
    Place p;
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    p.inside = at < rows * n;
    p.row = p.inside ? at / n : 0;
    p.unit = p.inside ? at % n : 0;
    p.running = p.inside && step < run[p.row];
    return p;
}

// gates (B, 4n), biases (4n), c_before and c (B, n), h (B, n) with rows h_stride apart
extern "C" __global__ void lstm_forward(const LstmForward p) {
    const Place at = place(p.rows, p.n, p.step, p.run);
    if (!at.inside) return;
    const u32 n = p.n, u = at.unit;
    float* own = p.gates + (u64)at.row * 4 * n + u;
    LstmGates gates = {0, 0, 0, 0};
    float c = 0, h = 0;
    if (at.running) {
        gates.i = own[0] + p.bias_ih[u] + p.bias_hh[u];
        gates.f = own[n] + p.bias_ih[n + u] + p.bias_hh[n + u];
        gates.g = own[2 * n] + p.bias_ih[2 * n + u] + p.bias_hh[2 * n + u];
        gates.o = own[3 * n] + p.bias_ih[3 * n + u] + p.bias_hh[3 * n + u];
        c = p.c_before[at.row * n + u];
        h = lstm_cell_forward<ExactActivation>(gates, c);
    }
    own[0] = gates.i;
    own[n] = gates.f;
    own[2 * n] = gates.g;
    own[3 * n] = gates.o;
    if (FROM_STATES && !at.running) return;
    p.c[at.row * n + u] = c;
    p.h[(u64)at.row * p.h_stride + u] = h;
}

// d_above (B, n) with rows d_stride apart: gradient of this step's h from the layer above. d_h and
// d_c (B, n): gradients of h and c from step s + 1. d_c receives the gradient for step s - 1; the
// product that follows writes d_h for step s - 1.
extern "C" __global__ void lstm_backward(const LstmBackward p) {
    const Place at = place(p.rows, p.n, p.step, p.run);
    if (!at.inside) return;
    const u32 n = p.n, cell = at.row * n + at.unit;
    float* own = p.gates + (u64)at.row * 4 * n + at.unit;
    LstmGates d = {0, 0, 0, 0};
    float dc = 0;
    if (at.running) {
        const LstmGates gates = {own[0], own[n], own[2 * n], own[3 * n]};
        const float dh = p.d_above[(u64)at.row * p.d_stride + at.unit] + p.d_h[cell];
        dc = p.d_c[cell];
        d = lstm_cell_backward<ExactActivation>(gates, dh, dc, p.c[cell], p.c_before[cell]);
    }
    own[0] = d.i;
    own[n] = d.f;
    own[2 * n] = d.g;
    own[3 * n] = d.o;
    if (FROM_STATES && !at.running) return;
    p.d_c[cell] = dc;
    if (FROM_STATES) p.d_h[cell] = 0;
}

// gates (B, 3n), of which the third holds x W_in^T alone; from_h (B, n): h' W_hn^T, receives b_hn
extern "C" __global__ void gru_forward(const GruForward p) {
    const Place at = place(p.rows, p.n, p.step, p.run);
    if (!at.inside) return;
    const u32 n = p.n, u = at.unit;
    float* own = p.gates + (u64)at.row * 3 * n + u;
    float r = 0, z = 0, candidate = 0, gated = 0, h = 0;
    if (at.running) {
        r = sigmoid(own[0] + p.bias_ih[u] + p.bias_hh[u]);
        z = sigmoid(own[n] + p.bias_ih[n + u] + p.bias_hh[n + u]);
        gated = p.from_h[at.row * n + u] + p.bias_hh[2 * n + u];
        candidate = tanhf(own[2 * n] + p.bias_ih[2 * n + u] + r * gated);
        h = (1 - z) * candidate + z * p.h_before[(u64)at.row * p.h_stride + u];
    }
    own[0] = r;
    own[n] = z;
    own[2 * n] = candidate;
    p.from_h[at.row * n + u] = gated;
    if (FROM_STATES && !at.running) return;
    p.h[(u64)at.row * p.h_stride + u] = h;
}

// d_h receives the gradient that reaches h' through z; the products add the rest. from_h receives
// the gradient of W_hn h' + b_hn.
extern "C" __global__ void gru_backward(const GruBackward p) {
    const Place at = place(p.rows, p.n, p.step, p.run);
    if (!at.inside) return;
    const u32 n = p.n, cell = at.row * n + at.unit;
    float* own = p.gates + (u64)at.row * 3 * n + at.unit;
    float dr = 0, dz = 0, dn = 0, d_gated = 0, dh_before = 0;
    if (at.running) {
        float r = own[0], z = own[n], candidate = own[2 * n];
        float dh = p.d_above[(u64)at.row * p.d_stride + at.unit] + p.d_h[cell];
        dn = dh * (1 - z) * (1 - candidate * candidate);
        dz = dh * (p.h_before[(u64)at.row * p.h_stride + at.unit] - candidate) * z * (1 - z);
        dr = dn * p.from_h[cell] * r * (1 - r);
        d_gated = dn * r;
        dh_before = dh * z;
    }
    own[0] = dr;
    own[n] = dz;
    own[2 * n] = dn;
    p.from_h[cell] = d_gated;
    if (FROM_STATES && !at.running) return;
    p.d_h[cell] = dh_before;
}

// gates (B, n)
extern "C" __global__ void rnn_forward(const RnnForward p) {
    const Place at = place(p.rows, p.n, p.step, p.run);
    if (!at.inside) return;
    float h = 0;
    if (at.running) {
        float sum = p.gates[(u64)at.row * p.n + at.unit] + p.bias_ih[at.unit] + p.bias_hh[at.unit];
        h = p.relu ? (sum <= 0 ? 0 : sum) : tanhf(sum); // NaN stays NaN
    }
    if (FROM_STATES && !at.running) return;
    p.h[(u64)at.row * p.h_stride + at.unit] = h;
}

extern "C" __global__ void rnn_backward(const RnnBackward p) {
    const Place at = place(p.rows, p.n, p.step, p.run);
    if (!at.inside) return;
    const u32 cell = at.row * p.n + at.unit;
    float d = 0;
    if (at.running) {
        float y = p.h[(u64)at.row * p.h_stride + at.unit];
        float dh = p.d_above[(u64)at.row * p.d_stride + at.unit] + p.d_h[cell];
        d = dh * (p.relu ? (y <= 0 ? 0.0f : 1.0f) : 1 - y * y);
    }
    p.gates[cell] = d;
    if (FROM_STATES && at.running) p.d_h[cell] = 0;
}
