"""Races weights of every format against f32, and against ONNX Runtime with float and with int8 weights.

    python bench/quantized.py --json results/quantized.json

Single threads. A case is a step of live sequences (`stream`), or whole sequences (`infer`). ONNX Runtime's
int8 is DynamicQuantizeLSTM, made by its own quantize_dynamic with a scale for each channel. All contenders of a
case run in turns; a ratio is the median over rounds.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

import peers
from contenders import Case, Net, call_json, make_input, ort_inference, ort_stream, write_onnx

FORMATS = ("f32", "f16", "bf16", "int8")
CASES = [
    Case("stream-n128", B=1, q=32, n=128, block=2000),
    Case("stream-n256", B=1, q=10, n=256, block=2000),
    Case("stream-n512", B=1, q=64, n=512, block=500),
    Case("stream-n1024", B=1, q=10, n=1024, block=200),
    Case("stream-n1024-B16", B=16, q=64, n=1024, block=50),
    Case("infer-n256", B=1, T=100, q=64, n=256, out=10),
    Case("infer-n512", B=16, T=50, q=128, n=512, out=10),
]
QUANTIZED_TOLERANCE = 0.05  # of a peer with int8 weights, against torch in float


class Ours:
    """`drnn bench --net lstm .. --weights FORMAT` in a subprocess, on one thread."""

    def __init__(self, program, case, weights):
        sizes = {"units": case.n, "inputs": case.q, "batch": case.B, "steps": case.T, "pass": case.kind}
        sizes |= {"weights": weights, "threads": 1, "rounds": 1} | ({"outputs": case.out} if case.out else {})
        options = [text for key, value in sizes.items() for text in (f"--{key}", str(value))]
        self.command = [program, "bench", "--net", "lstm", *options, "--no-peak", "--json"]
        self.name, self.variant, self.facts = weights, "1 thread", {}

    def warm_up(self, seconds):
        self.measure(seconds)

    def measure(self, seconds):
        reply = call_json([*self.command, "--seconds", str(seconds)])
        self.facts = {k: reply[k] for k in ("version", "isa")}
        return reply["cases"][0]["median_s"]


def make_contenders(case, options, folder):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    net, x = Net(case).eval(), make_input(case)
    with torch.inference_mode():
        expected = net(x).numpy()
    expected = expected.reshape(-1, expected.shape[-1])
    float_graph, int8_graph = (os.path.join(folder, f"{case.name}-{kind}.onnx") for kind in ("float", "int8"))
    write_onnx(float_graph, case, net)
    quantize_dynamic(float_graph, int8_graph, per_channel=True, weight_type=QuantType.QInt8)
    peer = ort_stream if case.kind == "stream" else ort_inference
    return [Ours(options.drnn, case, weights) for weights in FORMATS] + [
        peer(case, float_graph, x, expected, 1),
        peer(case, int8_graph, x, expected, 1, "ort int8", QUANTIZED_TOLERANCE),
    ]


def summarise(case, contenders, times):
    """Medians, and over rounds the median ratio of f32 to each format and of ONNX Runtime's int8 to ours."""

    def ratio(slow, fast):
        return statistics.median(a / b for a, b in zip(times[slow], times[fast]))

    return {
        "case": case.name,
        "median_s": {contender.name: statistics.median(times[contender.name]) for contender in contenders},
        "seconds": times,
        "f32 / format": {weights: ratio("f32", weights) for weights in FORMATS[1:]},
        "ort / f32": ratio("ort", "f32"),
        "ort int8 / int8": ratio("ort int8", "int8"),
    }


def table(results):
    names = list(results[0]["median_s"])
    lines = ["| us | " + " | ".join(names) + " | f32 / f16 | f32 / int8 | ort int8 / int8 |"]
    lines.append("|---|" + "--:|" * (len(names) + 3))
    for result in results:
        times = [f"{seconds * 1e6:.4g}" for seconds in result["median_s"].values()]
        ratios = [result["f32 / format"]["f16"], result["f32 / format"]["int8"], result["ort int8 / int8"]]
        lines.append(f"| {result['case']} | " + " | ".join(times + [f"{r:.2f}x" for r in ratios]) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--drnn", metavar="PATH", default=os.path.join(peers.ROOT, "target", "release", "drnn"))
    parser.add_argument("--case", action="append", choices=[c.name for c in CASES], help="may repeat; default: all")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2, help="minimum time of a contender per round")
    parser.add_argument("--json", metavar="FILE", help="also write everything measured to FILE")
    parser.add_argument("--show", metavar="FILE", help="measure nothing, print the table of an earlier --json FILE")
    options = parser.parse_args()
    if options.show:
        with open(options.show) as file:
            return print(table(json.load(file)["results"]))
    torch.set_flush_denormal(True)
    options.threads = 1
    report = peers.facts(options)
    report["command"] = report["command"].replace("bench/peers.py", "bench/quantized.py")
    report["results"] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if options.case and case.name not in options.case:
                continue
            contenders = make_contenders(case, options, folder)
            report["results"].append(summarise(case, contenders, peers.race(contenders, options)))
            report["drnn"] = {"isa": contenders[0].facts["isa"]}
            report["versions"]["drnn"] = contenders[0].facts["version"]
            print(case.name, file=sys.stderr, flush=True)
            peers.save(report, options)
    print(table(report["results"]))


if __name__ == "__main__":
    main()
