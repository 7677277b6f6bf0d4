#!/usr/bin/env python3
"""Compares the machine code of CUDA kernels before and after a change, without a GPU.

Two folders of cubins are compared file by file and kernel by kernel:

    mkdir old new
    git checkout BEFORE && DRNN_CUBINS=$PWD/old cargo test --release -p drnn-cuda --lib compile
    git checkout AFTER  && DRNN_CUBINS=$PWD/new cargo test --release -p drnn-cuda --lib compile
    tools/compare_sass.py old new --tools BIN

The tests compile every variant of every kernel with NVRTC and leave the cubins in the folder that
DRNN_CUBINS names. BIN is the folder of NVIDIA's nvdisasm and cuobjdump (default: PATH).

Of each kernel it compares: registers, stack (local memory: spills and indexed arrays), static
shared memory, instruction count, and the multiset and the sequence of arithmetic instructions
(FADD, FMUL, FFMA, DADD, DMUL, DFMA, HMMA, HGMMA, MUFU, conversions ..., without operands). The
sequence may differ where the scheduler reorders independent instructions; the multiset may not,
unless the arithmetic itself changed. It also counts generic loads and stores (LD, ST: slower than
LDG, STG) and the bulk copies (UBLKCP), and reports bulk copies with an address whose upper half is
zero: NVRTC 13.0 miscompiles some of them so.

Files and kernels that were renamed: --rename OLD=NEW, for file prefixes and kernel names.
The exit status is 1 if registers grew, local memory grew, or the multiset of arithmetic changed.
"""

import argparse
import collections
import difflib
import pathlib
import re
import subprocess
import sys

ARITHMETIC = re.compile(
    r"^(FADD|FMUL|FFMA|FMNMX|FSEL|DADD|DMUL|DFMA|DSETP|HADD|HADD2|HMUL2|HMMA|HGMMA|MUFU|F2F|F2FP|"
    r"F2I|I2F|I2FP|FSETP|FCHK)\b"
)
# HADD2.F32 converts f16 to f32; F2FP packs two f16; FSEL, FSETP and FMNMX select and compare. HFMA2
# is left out: the compiler moves constants with it, and no kernel computes in f16.
INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);"
)


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def kernels(cubin, tools):
    """By kernel: resources, opcodes, arithmetic opcodes."""
    found = {}
    usage = run([tools + "cuobjdump", "--dump-resource-usage", str(cubin)])
    pattern = r"Function (\w+):\s*\n\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)"
    for name, reg, stack, shared, local in re.findall(pattern, usage):
        found[name] = {"reg": int(reg), "stack": int(stack) + int(local), "shared": int(shared)}
    name = None
    for line in run([tools + "nvdisasm", "--print-code", str(cubin)]).splitlines():
        section = re.match(r"^\s*\.section\s+\.text\.(\w+)", line)
        if section:
            name, zero = section[1], set()
            found.setdefault(name, {}).update(ops=[], bulk_zero=0)
            continue
        match = INSTRUCTION.match(line)
        if name is None or not match:
            continue
        opcode, operands = match[2], match[3]
        found[name]["ops"].append(opcode)
        if opcode.startswith("UBLKCP"):
            upper = ["UR%d" % (int(low) + 1) for low in re.findall(r"\[UR(\d+)\]", operands)]
            found[name]["bulk_zero"] += any(register in zero for register in upper)
        # Uniform registers that hold a zero that was moved there.
        target, _, source = operands.partition(",")
        is_move = opcode.split(".")[0] in ("UMOV", "R2UR")
        zero.discard(target.strip())
        if is_move and source.strip() in ("URZ", "RZ"):
            zero.add(target.strip())
    for kernel in found.values():
        ops = kernel.get("ops", [])
        kernel["arithmetic"] = [op for op in ops if ARITHMETIC.match(op)]
        kernel["count"] = len([op for op in ops if op not in ("NOP", "BRA")])
        base = collections.Counter(op.split(".")[0] for op in ops)
        kernel["generic"] = base["LD"] + base["ST"]
        kernel["bulk"] = base["UBLKCP"]
    return found


def renamed(name, renames, prefix):
    for old, new in renames:
        if prefix and name.startswith(old + "-"):
            return new + name[len(old):]
        if not prefix and name == old:
            return new
    return name


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--tools", default="", help="folder of nvdisasm and cuobjdump")
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument("--only", default="", help="compare files whose name contains this")
    parser.add_argument("--diff", action="store_true", help="show how the sequences differ")
    args = parser.parse_args()
    tools = args.tools.rstrip("/") + "/" if args.tools else ""
    renames = [tuple(r.split("=", 1)) for r in args.rename]
    worse, same, missing = 0, 0, []
    columns = ["registers", "local", "shared", "instructions", "arithmetic", "generic", "bulk"]
    print(" | ".join(["file kernel"] + columns))
    for old in sorted(args.old.glob("*.cubin")):
        if args.only not in old.name:
            continue
        new = args.new / renamed(old.name, renames, True)
        if not new.exists():
            missing.append(old.name)
            continue
        before, after = kernels(old, tools), kernels(new, tools)
        for name, b in before.items():
            a = after.get(renamed(name, renames, False))
            if a is None:
                missing.append(f"{old.name}: {name}")
                continue
            multiset = collections.Counter(b["arithmetic"]) == collections.Counter(a["arithmetic"])
            sequence = b["arithmetic"] == a["arithmetic"]
            bad = a["reg"] > b["reg"] or a["stack"] > b["stack"] or not multiset or a["bulk_zero"]
            worse += bool(bad)
            if b["ops"] == a["ops"] and b["reg"] == a["reg"] and not bad:
                same += 1
                continue
            change = lambda key: f"{b[key]}" if b[key] == a[key] else f"{b[key]} -> {a[key]}"
            order = "same sequence" if sequence else "same multiset" if multiset else "CHANGED"
            line = [f"{old.stem} {name}"] + [change(k) for k in ("reg", "stack", "shared", "count")]
            line += [f"{len(b['arithmetic'])} {order}", change("generic"), change("bulk")]
            print(("! " if bad else "  ") + " | ".join(line))
            if not multiset:
                gone = collections.Counter(b["arithmetic"]) - collections.Counter(a["arithmetic"])
                more = collections.Counter(a["arithmetic"]) - collections.Counter(b["arithmetic"])
                print(f"      gone {dict(gone)}, more {dict(more)}")
            if a["bulk_zero"]:
                print(f"      {a['bulk_zero']} bulk copies with a zero upper half of an address")
            if args.diff and not sequence:
                lines = difflib.unified_diff(b["arithmetic"], a["arithmetic"], lineterm="", n=1)
                print("\n".join("      " + line for line in list(lines)[2:]))
    print(f"{same} kernels have the same instructions in the same order and as many registers")
    print(f"{worse} kernels are worse" + (f"; missing: {', '.join(missing)}" if missing else ""))
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
