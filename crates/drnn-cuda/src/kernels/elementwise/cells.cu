// The cells' arithmetic, one step: a thread per (row, unit).
//
//   lstm   i, f, o = s(gates + b)   g = tanh(gates + b)   c = f c' + i g          h = o tanh(c)
//   gru    r, z = s(gates + b)      n = tanh(x_n + b_n + r (W_hn h' + b_hn))      h = (1 - z) n + z h'
//   rnn    h = tanh(gates + b)      or max(0, ..)
//
// `gates` holds what the products left (x W_ih^T + h' W_hh^T) and gets the activated gates; on the way back those are
// replaced by their gradients. A row that does not run at this step has h = c = 0, and hands no gradient on.

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

// gates (B, 4n), biases (4n), c' and c (B, n), h (B, stride)
extern "C" __global__ void lstm_forward(
    float* gates, const float* bias_ih, const float* bias_hh, const float* c_before, float* c, float* h,
    u32 h_stride, const u32* run, u32 step, u32 rows, u32 n) {
    Place p = place(rows, n, step, run);
    if (!p.inside) return;
    float* own = gates + (u64)p.row * 4 * n + p.unit;
    float i = 0, f = 0, g = 0, o = 0, c_new = 0, h_new = 0;
    if (p.running) {
        const u32 u = p.unit;
        i = sigmoid(own[0] + bias_ih[u] + bias_hh[u]);
        f = sigmoid(own[n] + bias_ih[n + u] + bias_hh[n + u]);
        g = tanhf(own[2 * n] + bias_ih[2 * n + u] + bias_hh[2 * n + u]);
        o = sigmoid(own[3 * n] + bias_ih[3 * n + u] + bias_hh[3 * n + u]);
        c_new = f * c_before[p.row * n + u] + i * g;
        h_new = o * tanhf(c_new);
    }
    own[0] = i;
    own[n] = f;
    own[2 * n] = g;
    own[3 * n] = o;
    c[p.row * n + p.unit] = c_new;
    h[(u64)p.row * h_stride + p.unit] = h_new;
}

// d_above (B, stride): what this step's h is told from above; d_h (B, n): from the step behind it, then for the one before
// it, which the product adds to; d_c (B, n) likewise.
extern "C" __global__ void lstm_backward(
    float* gates, const float* d_above, u32 d_stride, const float* d_h, float* d_c, const float* c_before, const float* c,
    const u32* run, u32 step, u32 rows, u32 n) {
    Place p = place(rows, n, step, run);
    if (!p.inside) return;
    float* own = gates + (u64)p.row * 4 * n + p.unit;
    const u32 at = p.row * n + p.unit;
    float di = 0, df = 0, dg = 0, d_o = 0, dc_before = 0;
    if (p.running) {
        float i = own[0], f = own[n], g = own[2 * n], o = own[3 * n];
        float tanh_c = tanhf(c[at]);
        float dh = d_above[(u64)p.row * d_stride + p.unit] + d_h[at];
        float dc = d_c[at] + dh * o * (1 - tanh_c * tanh_c);
        di = dc * g * i * (1 - i);
        df = dc * c_before[at] * f * (1 - f);
        dg = dc * i * (1 - g * g);
        d_o = dh * tanh_c * o * (1 - o);
        dc_before = dc * f;
    }
    own[0] = di;
    own[n] = df;
    own[2 * n] = dg;
    own[3 * n] = d_o;
    d_c[at] = dc_before;
}

// gates (B, 3n): for n only x W_in^T; from_h (B, n): h' W_hn^T, gets b_hn added
extern "C" __global__ void gru_forward(
    float* gates, float* from_h, const float* bias_ih, const float* bias_hh, const float* h_before, float* h, u32 h_stride,
    const u32* run, u32 step, u32 rows, u32 n) {
    Place p = place(rows, n, step, run);
    if (!p.inside) return;
    float* own = gates + (u64)p.row * 3 * n + p.unit;
    float r = 0, z = 0, candidate = 0, gated = 0, h_new = 0;
    if (p.running) {
        const u32 u = p.unit;
        r = sigmoid(own[0] + bias_ih[u] + bias_hh[u]);
        z = sigmoid(own[n] + bias_ih[n + u] + bias_hh[n + u]);
        gated = from_h[p.row * n + u] + bias_hh[2 * n + u];
        candidate = tanhf(own[2 * n] + bias_ih[2 * n + u] + r * gated);
        h_new = (1 - z) * candidate + z * h_before[(u64)p.row * h_stride + u];
    }
    own[0] = r;
    own[n] = z;
    own[2 * n] = candidate;
    from_h[p.row * n + p.unit] = gated;
    h[(u64)p.row * h_stride + p.unit] = h_new;
}

// d_h gets what reaches h' past the gates; the products add the rest. from_h gets the gradient of W_hn h' + b_hn.
extern "C" __global__ void gru_backward(
    float* gates, float* from_h, const float* d_above, u32 d_stride, float* d_h, const float* h_before, u32 h_stride,
    const u32* run, u32 step, u32 rows, u32 n) {
    Place p = place(rows, n, step, run);
    if (!p.inside) return;
    float* own = gates + (u64)p.row * 3 * n + p.unit;
    const u32 at = p.row * n + p.unit;
    float dr = 0, dz = 0, dn = 0, d_gated = 0, dh_before = 0;
    if (p.running) {
        float r = own[0], z = own[n], candidate = own[2 * n];
        float dh = d_above[(u64)p.row * d_stride + p.unit] + d_h[at];
        dn = dh * (1 - z) * (1 - candidate * candidate);
        dz = dh * (h_before[(u64)p.row * h_stride + p.unit] - candidate) * z * (1 - z);
        dr = dn * from_h[at] * r * (1 - r);
        d_gated = dn * r;
        dh_before = dh * z;
    }
    own[0] = dr;
    own[n] = dz;
    own[2 * n] = dn;
    from_h[at] = d_gated;
    d_h[at] = dh_before;
}

// gates (B, n)
extern "C" __global__ void rnn_forward(
    const float* gates, const float* bias_ih, const float* bias_hh, float* h, u32 h_stride, u32 relu, const u32* run, u32 step,
    u32 rows, u32 n) {
    Place p = place(rows, n, step, run);
    if (!p.inside) return;
    float h_new = 0;
    if (p.running) {
        float sum = gates[(u64)p.row * n + p.unit] + bias_ih[p.unit] + bias_hh[p.unit];
        h_new = relu ? (sum <= 0 ? 0 : sum) : tanhf(sum); // no number stays none
    }
    h[(u64)p.row * h_stride + p.unit] = h_new;
}

extern "C" __global__ void rnn_backward(
    float* gates, const float* h, u32 h_stride, const float* d_above, u32 d_stride, const float* d_h, u32 relu, const u32* run,
    u32 step, u32 rows, u32 n) {
    Place p = place(rows, n, step, run);
    if (!p.inside) return;
    const u32 at = p.row * n + p.unit;
    float d = 0;
    if (p.running) {
        float y = h[(u64)p.row * h_stride + p.unit];
        float dh = d_above[(u64)p.row * d_stride + p.unit] + d_h[at];
        d = dh * (relu ? (y <= 0 ? 0.0f : 1.0f) : 1 - y * y);
    }
    gates[at] = d;
}
