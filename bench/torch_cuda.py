"""Races drnn's modules for PyTorch against torch.nn on a GPU: whole training steps, and calls.

    python bench/torch_cuda.py [--case NAME ...] [--rounds 5] [--json FILE]

A step is zero_grad, forward, loss, backward, clip_grad_norm_ and fused Adam; both sides have the
same parameters and data, and before timing their losses and gradients are compared. Times are by
the clock: some steps are submitted, then the GPU is waited for. Rounds alternate, and the ratio is
that of the medians. "graph" replays the step from a CUDA graph. A drnn module that leaves the work
to torch's own operator fails its case: it would race torch.nn against itself.

"autocast" has f32 parameters, "half" f16 ones and f32 copies that Adam updates; gpu_contenders.py
says more.
"""

import argparse
import copy
import datetime
import gc
import json
import statistics
import sys
import time
import warnings

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import drnn
import drnn.torch
import gpu_contenders
from provenance import command_line, commit

MAX_DIFFERENCE = 0.03  # of losses, and of gradients by their norm, both in f16
SCALE = 4096.0  # of losses, as torch.amp.GradScaler would find it, so that gradients in f16 last


class Tagger(nn.Module):
    """28 symbols -> 10 -> LSTM -> 27 classes."""

    def __init__(self, n):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(28, 10), nn.LSTM(10, n)
        self.output = nn.Linear(n, 27)

    def forward(self, x):
        return self.output(self.rnn(self.embedding(x))[0])


class Packed(nn.Module):
    """Vectors of packed sequences -> LSTM -> 17 classes."""

    def __init__(self, q, n):
        super().__init__()
        self.rnn, self.output = nn.LSTM(q, n), nn.Linear(n, 17)

    def forward(self, x):
        return self.output(self.rnn(x)[0].data)


def replaced(net):
    """The same network with drnn's modules; from here on, leaving work to torch's is an error."""
    modules = getattr(drnn.torch, "_modules", None)
    getattr(modules, "_WARNED", set()).clear()  # what was warned of before would pass in silence
    return drnn.torch.replace(net)


def step_of(net, loss_of, device):
    """A training step under autocast."""
    parameters = list(net.parameters())
    optimizer = gpu_contenders.adam(parameters, device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        (SCALE * loss_of(net)).backward()
        torch._foreach_mul_([p.grad for p in parameters], 1 / SCALE)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step


def difference(theirs, ours, loss_of):
    """The larger relative difference, of losses or of gradients."""
    found = []
    for net in (theirs, ours):
        net.zero_grad(set_to_none=True)
        loss = SCALE * loss_of(net)
        loss.backward()
        gradient = torch.cat([p.grad.float().flatten() for p in net.parameters()])
        found.append((loss.detach().float(), gradient))
        net.zero_grad(set_to_none=True)
    (loss, gradient), (own_loss, own_gradient) = found
    of_loss = ((own_loss - loss) / loss).abs()
    return float(max(of_loss, (own_gradient - gradient).norm() / gradient.norm()))


def amp(device, net, x):
    with torch.autocast(device, torch.float16, enabled=device == "cuda", cache_enabled=False):
        return net(x)


def compared(theirs, loss_of, device):
    """Steps of both, and how far apart they are before the first."""
    ours = replaced(copy.deepcopy(theirs))
    apart = difference(theirs, ours, loss_of)
    if not apart < MAX_DIFFERENCE:
        raise RuntimeError(f"losses or gradients differ by {apart:.3g}")
    return {
        "difference": apart,
        "torch": step_of(theirs, loss_of, device),
        "drnn": step_of(ours, loss_of, device),
    }


def characters(n, device, rows=128, steps=188):
    x = torch.randint(0, 28, (steps, rows), device=device)
    y = torch.randint(0, 27, (steps * rows,), device=device)

    def loss_of(net):
        outputs = amp(device, net, x).float()
        return nn.functional.cross_entropy(outputs.flatten(0, 1), y)

    return compared(Tagger(n).to(device), loss_of, device)


def packed(device, q=300, n=300, rows=32):
    """Lengths of 3 to 60, and a gradient of x, as after an embedding."""
    lengths = torch.linspace(60, 3, rows).round().long()
    x = torch.randn(60, rows, q, device=device, requires_grad=True)
    y = torch.randint(0, 17, (int(lengths.sum()),), device=device)

    def loss_of(net):
        outputs = amp(device, net, pack_padded_sequence(x, lengths)).float()
        x.grad = None
        return nn.functional.cross_entropy(outputs, y)

    return compared(Packed(q, n).to(device), loss_of, device)


def dense(n, device, steps=1024, rows=16, q=128):
    """Both sides with f32 parameters and with f16 ones."""
    shape = {"net": "lstm", "layers": 1, "units": n, "batch": rows, "steps": steps}
    shape |= {"inputs": q, "outputs": 1}
    found, outputs, on_gpu = {"difference": 0.0}, {}, device == "cuda"
    x = torch.rand(steps, rows, q, device=device) * 2 - 1
    for side, prepare in (("torch", gpu_contenders.unchanged), ("drnn", replaced)):
        torch.manual_seed(2)
        for name, (net, calls) in (
            ("autocast", gpu_contenders.single(shape, device, on_gpu, prepare)),
            ("half", gpu_contenders.half(shape, device, prepare)),
        ):
            net.train()
            found[f"{side} {name}"] = calls["step"]
            with torch.no_grad():
                y = net(x.half()) if name == "half" else amp(device, net, x)
            expected = outputs.setdefault(name, y).float()
            apart = float((y.float() - expected).norm() / expected.norm())
            found["difference"] = max(found["difference"], apart)
    if not found["difference"] < MAX_DIFFERENCE:
        raise RuntimeError(f"outputs differ by {found['difference']:.3g}")
    return found


class Small(nn.Module):
    """Numbers -> LSTM -> one number."""

    def __init__(self, q, n):
        super().__init__()
        self.rnn, self.output = nn.LSTM(q, n), nn.Linear(n, 1)

    def forward(self, x):
        return self.output(self.rnn(x)[0])


def ensemble(count, device, steps=50, rows=100, q=1, n=100):
    """A training step of small networks: nn.LSTM one after another, and `drnn.torch.Ensemble`."""
    nets = [Small(q, n).to(device) for _ in range(count)]
    together = drnn.torch.Ensemble(nets)
    x = torch.rand(steps, rows, q, device=device)
    target = torch.rand(steps, rows, 1, device=device)
    alone = [list(net.parameters()) for net in nets]
    theirs = gpu_contenders.adam([p for parameters in alone for p in parameters], device)
    own = gpu_contenders.adam(list(together.parameters()), device)

    def losses(outputs):
        return (outputs.float() - target).square().flatten(-3).mean(-1)

    def scaled(loss, parameters):
        (SCALE * loss).backward()
        torch._foreach_mul_([p.grad for p in parameters], 1 / SCALE)

    def one_by_one():
        theirs.zero_grad(set_to_none=True)
        for net, parameters in zip(nets, alone):
            scaled(losses(amp(device, net, x)), parameters)
            nn.utils.clip_grad_norm_(parameters, 1.0)
        theirs.step()

    def at_once():
        own.zero_grad(set_to_none=True)
        scaled(losses(amp(device, together, x)).sum(), list(together.parameters()))
        together.clip_grad_norm_(1.0)
        own.step()

    first = losses(amp(device, nets[-1], x)) / losses(amp(device, together, x))[-1]
    apart = float((first.detach() - 1).abs())
    if not apart < MAX_DIFFERENCE:
        raise RuntimeError(f"losses differ by {apart:.3g}")
    return {"difference": apart, "torch": one_by_one, "drnn": at_once}


def reaches_kernels(call):
    """Whether a call gets to drnn's kernels: a batch that is left to torch's operator does not."""
    reached, guard = [], drnn.torch._cuda.device_guard

    def noted(device):
        reached.append(device)
        return guard(device)

    drnn.torch._cuda.device_guard = noted
    try:
        call()
    finally:
        drnn.torch._cuda.device_guard = guard
    return bool(reached)


def wall_ms(call, seconds, device):
    """Milliseconds of a call among several, which are waited for together."""
    gpu_contenders.synchronize(device)
    count, begin = 0, time.perf_counter()
    while count < 2 or (time.perf_counter() - begin < seconds and count < 200):
        call()
        count += 1
        if count % 8 == 0:
            gpu_contenders.synchronize(device)  # the host is not to run far ahead
    gpu_contenders.synchronize(device)
    return (time.perf_counter() - begin) * 1e3 / count


def host_us(call, device, calls=4):
    """Microseconds that the host spends on a call while the GPU is busy with something else. Few
    calls: the host waits where a thousand launches are in the queue."""
    gpu_contenders.synchronize(device)
    if device == "cuda":
        torch.cuda._sleep(50_000_000)  # cycles: about 30 ms, so that nothing waits for results
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    found = (time.perf_counter() - begin) * 1e6 / calls
    gpu_contenders.synchronize(device)
    return found


def overhead(device, n=64, rows=16, steps=64, q=64):
    """Calls of a small layer in f16, with and without what autograd saves."""
    kind = torch.float16 if device == "cuda" else torch.float32
    theirs = nn.LSTM(q, n).to(device, kind)
    x, found = torch.randn(steps, rows, q, device=device, dtype=kind), {}
    for side, net in (("torch", theirs), ("drnn", replaced(copy.deepcopy(theirs)))):

        def forward(net=net):
            with torch.no_grad():
                net(x)

        def both(net=net):
            net(x)[0].sum().backward()
            net.zero_grad(set_to_none=True)

        found[side] = {"forward": forward, "forward and backward": both}
    return found


CASES = {
    "amp-n512": ("Embedding, LSTM n=512, Linear; B=128 T=188", lambda d: characters(512, d)),
    "amp-n1024": ("Embedding, LSTM n=1024, Linear; B=128 T=188", lambda d: characters(1024, d)),
    "dense-n512": ("LSTM n=512, Linear; q=128 B=16 T=1024", lambda d: dense(512, d)),
    "dense-n1024": ("LSTM n=1024, Linear; q=128 B=16 T=1024", lambda d: dense(1024, d)),
    "ensemble-32": ("32 LSTMs n=100, Linear; q=1 B=100 T=50", lambda d: ensemble(32, d)),
    "packed-n300": ("LSTM n=300, Linear; q=300 B=32, lengths 3 to 60", packed),
}
NO_GRAPH = ("packed-n300",)  # lengths are copied from the host
OVERHEAD = "overhead"


def median_of_rounds(contenders, rounds, measure):
    """Medians by name; every other round in reverse."""
    times = {name: [] for name in contenders}
    for number in range(rounds):
        order = list(contenders.items())
        for name, call in order if number % 2 == 0 else reversed(order):
            times[name].append(measure(call))
    return {name: statistics.median(values) for name, values in times.items()}


def race(name, arguments, device):
    """What a case found: milliseconds and ratios, eager and from a graph."""
    torch.manual_seed(1)
    text, make = CASES[name]
    steps = make(device)
    result = {"case": text, "difference": steps.pop("difference", None)}
    for who, step in steps.items():
        if device == "cuda" and who.startswith("drnn") and not reaches_kernels(step):
            raise RuntimeError(f"{who} leaves the work to torch's operator")
    for how in ("eager",) if name in NO_GRAPH else ("eager", "graph"):
        calls, failed = {}, {}
        for who, step in steps.items():
            try:
                calls[who] = step if how == "eager" else gpu_contenders.captured(step, device)
                calls[who]()
            except Exception as why:  # one side may have no graph; the other has its time
                calls.pop(who, None)
                failed[who] = f"{type(why).__name__}: {why}"
        found = median_of_rounds(
            calls, arguments.rounds, lambda call: wall_ms(call, arguments.seconds, device)
        )
        best = {
            side: min((ms for who, ms in found.items() if who.startswith(side)), default=None)
            for side in ("torch", "drnn")
        }
        has_both = None not in best.values()
        ratio = best["torch"] / best["drnn"] if has_both else None
        result[how] = {"ms": found, "ratio": ratio, "failed": failed}
    return result


def race_overhead(arguments, device):
    sides = overhead(device)
    result = {"case": "one call of LSTM n=64, q=64 B=16 T=64, f16; host, microseconds"}
    for what in ("forward", "forward and backward"):
        calls = {side: kinds[what] for side, kinds in sides.items()}
        for call in calls.values():
            call()
        found = median_of_rounds(calls, 3 * arguments.rounds, lambda call: host_us(call, device))
        result[what] = {"us": found, "ratio": found["torch"] / found["drnn"]}
    return result


def show(name, result):
    print(f"{name}: {result['case']}")
    if "failed" in result:
        return print(f"  failed: {result['failed']}", flush=True)
    if result.get("difference") is not None:
        print(f"  losses and gradients differ by {result['difference']:.2g}")
    for what in [key for key, value in result.items() if isinstance(value, dict)]:
        one = result[what]
        unit = "us" if "us" in one else "ms"
        times = ", ".join(f"{who} {value:.3f} {unit}" for who, value in one[unit].items())
        ratio = "" if one["ratio"] is None else f"{one['ratio']:.2f}x "
        failed = "".join(f"; {who} failed: {why}" for who, why in one.get("failed", {}).items())
        print(f"  {what}: {ratio}({times}){failed}", flush=True)


def main(device="cuda"):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*CASES, OVERHEAD]
    parser.add_argument("--case", action="append", choices=names, help="all if not given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a contender per round")
    parser.add_argument("--json", help="also write the results to this file")
    arguments = parser.parse_args()
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU here")
    warnings.filterwarnings("error", message="drnn.torch:")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    head = {
        "command": command_line(),
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "drnn": drnn.__version__,
        "commit": commit(),
    }
    print(f"{head['device']}, PyTorch {head['torch']}, drnn {head['drnn']}")
    results = {}
    for name in arguments.case or names:
        try:
            one = race_overhead if name == OVERHEAD else lambda *given: race(name, *given)
            results[name] = one(arguments, device)
        except Exception as why:  # the other cases are raced all the same
            text = "" if name == OVERHEAD else CASES[name][0]
            results[name] = {"case": text, "failed": f"{type(why).__name__}: {why}"}
        show(name, results[name])
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump({**head, "results": results}, file, indent=1)
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
    return 1 if any("failed" in result for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
