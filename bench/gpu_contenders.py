"""What `peers_gpu.py --grid` races: `drnn bench --device cuda --shapes .. --wait`, and PyTorch.

PyTorch's contenders have one recurrent module and Linear(n, m) with a squared error on every step:

    tf32      f32 parameters, products in TF32
    autocast  the same under torch.autocast(float16), which casts the parameters in every pass
    half      modules of float16, on which cuDNN's persistent kernels run where PyTorch selects
              them; a step copies gradients to f32, clips, updates f32 parameters and copies those
              back

Gradients in f16 are not scaled, which costs training quality but no time, so it favours PyTorch. A
forward pass is in eval mode. All are replayed from a CUDA graph.
"""

import collections
import gc
import json
import queue
import subprocess
import tempfile
import threading
import time

try:
    import torch
except ImportError:  # not needed to show a file
    torch = None

KINDS = ("forward", "step")
# Between two events, as in `drnn bench`: in training, too, a graph is launched while another runs.
LAUNCHES = 4
CLOCKS_RISE_MS = 50  # of work before anything is timed
COMPILING = 5  # times as long as for other shapes is the answer to the first one waited for


class Failed(Exception):
    """drnn gave no times for a shape."""


class Drnn:
    """`drnn bench --shapes` in a subprocess, which measures one shape when `next` is called and
    leaves the GPU idle otherwise. After a failure it is started again for the
    shapes that are left."""

    def __init__(self, program, shapes, precision, rounds, seconds, patience):
        self.command = [program, "bench", "--device", "cuda", "--precision", precision, "--json"]
        self.command += ["--rounds", str(rounds), "--seconds", str(seconds), "--wait"]
        self.left, self.patience = collections.deque(shapes), patience
        self.process = None
        self.start()

    def start(self):
        # Kernels are compiled before the first shape is measured, while PyTorch is loaded.
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump(list(self.left), self.file)
        self.file.flush()
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*self.command, "--shapes", self.file.name], stdin=pipe, stdout=pipe, text=True
        )
        self.lines, self.has_answered = queue.Queue(), False
        threading.Thread(target=self.read, args=(self.process, self.lines), daemon=True).start()

    @staticmethod
    def read(process, lines):
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.file.close()
        self.process = None

    def next(self):
        """What drnn reports about the next shape."""
        if self.process is None:
            self.start()
        shape = self.left.popleft()
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            patience = self.patience if self.has_answered else COMPILING * self.patience
            line = self.lines.get(timeout=patience)
        except queue.Empty:
            self.stop()
            raise Failed(f"no answer within {patience:.0f} s") from None
        except OSError:
            line = None
        if line is None:
            code = self.process.wait()
            self.stop()
            raise Failed(f"drnn ended with exit code {code}")
        self.has_answered, found = True, json.loads(line)
        if any(found.get(key) != value for key, value in shape.items()):
            self.stop()
            raise Failed(f"drnn measured another shape, {line.strip()}")
        if "error" in found:
            self.stop()  # an error of a kernel leaves a context that nothing runs in
            raise Failed(found["error"])
        return found


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def once_ms(call, device="cuda"):
    """Milliseconds of a call: by device events, of several in a row; on a CPU by the clock."""
    if device != "cuda":
        begin = time.perf_counter()
        call()
        return (time.perf_counter() - begin) * 1e3
    begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
    begin.record()
    for _ in range(LAUNCHES):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / LAUNCHES


def milliseconds(call, seconds, device="cuda"):
    """The median of several measurements, and their number: 5 to 50, for `seconds`."""

    call()
    one = max(once_ms(call, device), 1e-3) * (LAUNCHES if device == "cuda" else 1)
    count = min(50, max(5, int(seconds * 1e3 / one)))
    for _ in range(min(1000, int(CLOCKS_RISE_MS / one) + 1)):
        once_ms(call, device)
    times = sorted(once_ms(call, device) for _ in range(count))
    return (times[(count - 1) // 2] + times[count // 2]) / 2, count


def captured(call, device="cuda"):
    """The call, replayed from a CUDA graph."""
    if device != "cuda":
        return call
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()

    def replay():
        graph.replay()

    replay.reads_memory_of = call
    return replay


class Network(torch.nn.Module if torch else object):
    """Vectors -> recurrent layers -> m values on every step, time first."""

    def __init__(self, shape):
        super().__init__()
        net = shape["net"]
        both = net.startswith("bi")
        module = getattr(torch.nn, net.removeprefix("bi").upper())
        n, layers = shape["units"], shape["layers"]
        self.rnn = module(shape["inputs"], n, layers, bidirectional=both)
        self.output = torch.nn.Linear(n * (2 if both else 1), shape["outputs"])

    def forward(self, x):
        return self.output(self.rnn(x)[0])


def on(device, shape):
    """The network, made where it runs."""
    with torch.device(device):
        return Network(shape)


def adam(parameters, device):
    return torch.optim.Adam(parameters, fused=True, capturable=device == "cuda")


def data(shape, device):
    size = shape["steps"], shape["batch"]
    x = torch.rand(*size, shape["inputs"], device=device) * 2 - 1
    return x, torch.rand(*size, shape["outputs"], device=device)


def unchanged(net):
    return net


def single(shape, device, autocast, prepare=unchanged):
    """Forward and step with parameters of f32."""
    net, (x, y) = prepare(on(device, shape)), data(shape, device)
    parameters = list(net.parameters())
    optimizer = adam(parameters, device)

    def outputs():
        with torch.autocast(device, torch.float16, enabled=autocast, cache_enabled=False):
            return net(x)

    def forward():
        with torch.no_grad():
            outputs()

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(outputs().float(), y).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return net, {"forward": forward, "step": step}


def half(shape, device, prepare=unchanged):
    """Forward and step with a module of f16 and parameters of f32."""
    net, (x, y) = prepare(on(device, shape).half()), data(shape, device)
    x = x.half()
    own = list(net.parameters())
    parameters = [p.detach().float() for p in own]
    for p in parameters:
        p.grad = torch.zeros_like(p)
    optimizer = adam(parameters, device)

    def forward():
        with torch.no_grad():
            net(x)

    def step():
        net.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(net(x).float(), y).backward()
        with torch.no_grad():
            torch._foreach_copy_([p.grad for p in parameters], [p.grad for p in own])
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            torch._foreach_copy_(own, parameters)

    return net, {"forward": forward, "step": step}


PEERS = {
    "tf32": lambda shape, device: single(shape, device, False),
    "autocast": lambda shape, device: single(shape, device, True),
    "half": half,
}


def flash(shape, device):
    """FlashRNN's fused LSTM: one head, bf16, after an input product; see `flash_unavailable`."""
    from flashrnn import flashrnn

    n, q, m = shape["units"], shape["inputs"], shape["outputs"]
    x, y = data(shape, device)
    x, y = x.transpose(0, 1).contiguous().bfloat16(), y.transpose(0, 1).contiguous()
    scale = n**-0.5

    def weight(*sizes):
        return ((torch.rand(*sizes, device=device) * 2 - 1) * scale).bfloat16()

    own = [
        weight(4 * n, q),
        weight(4, 1, n, n),
        weight(4, 1, n),
        weight(m, n),
        weight(m),
    ]
    own = [p.requires_grad_() for p in own]
    parameters = [p.detach().float() for p in own]
    for p in parameters:
        p.grad = torch.zeros_like(p)
    optimizer = adam(parameters, device)

    def outputs():
        w, r, b, w_out, b_out = own
        wx = torch.nn.functional.linear(x, w).unflatten(-1, (4, 1, n))
        states, _ = flashrnn(wx, r, b, function="lstm", backend="cuda_fused")
        return torch.nn.functional.linear(states[0].flatten(2), w_out, b_out)

    def forward():
        with torch.no_grad():
            outputs()

    def step():
        for p in own:
            p.grad = None
        torch.nn.functional.mse_loss(outputs().float(), y).backward()
        with torch.no_grad():
            torch._foreach_copy_([p.grad for p in parameters], [p.grad for p in own])
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            torch._foreach_copy_(own, parameters)

    return None, {"forward": forward, "step": step}


def flash_unavailable():
    """Why FlashRNN cannot be raced; None if it can: it compiles itself for every shape."""
    import shutil

    try:
        import flashrnn  # noqa: F401
    except Exception as why:  # whatever keeps it from being imported
        return f"it cannot be imported: {why}"
    if shutil.which("nvcc") is None:
        return "it needs the compiler nvcc, which is not on the path"
    return None


def measure(make, shape, seconds, device="cuda"):
    """Milliseconds of a contender's forward pass and step, and how each was run."""
    found = {}
    net, calls = make(shape, device)
    for kind in KINDS:
        if net is not None:
            net.train(kind == "step")
        how = "graph"
        try:
            call = captured(calls[kind], device)
        except Exception as why:  # what cannot be captured is measured as it is
            synchronize(device)
            call, how = calls[kind], f"eager, because a graph failed: {why}"
        found[f"{kind}_ms"], found[f"{kind}_times"] = milliseconds(call, seconds, device)
        found[f"{kind}_how"] = how
        del call
    return found


def race(shape, peers, seconds, device="cuda"):
    """All peers' times of a shape; an error in place of times where one cannot run it."""
    found = {}
    for name in peers:
        make = flash if name == "flashrnn" else PEERS[name]
        if name == "flashrnn" and (shape["net"], shape["layers"]) != ("lstm", 1):
            continue
        try:
            found[name] = measure(make, shape, seconds, device)
        except Exception as why:  # the other peers are measured all the same
            found[name] = {"error": f"{type(why).__name__}: {why}"}
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
    return found
