"""Writes the tables of docs/FLATTENING.md from results/theorem, between their markers. Needs Python only.

    drnn reproduce theorem --out results/theorem
    python tools/flattening_tables.py
"""

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = {"rnn-tanh": "RNN, tanh", "rnn-relu": "RNN, relu", "lstm": "LSTM", "gru": "GRU"}


def read(name):
    with open(ROOT / "results/theorem" / name) as file:
        return list(csv.DictReader(file))


def differences():
    yield "| cell | networks | f32 | f64 |"
    yield "|---|---|---|---|"
    rows = read("theorem.csv")
    for cell, name in NAMES.items():
        own = [row for row in rows if row["cell"] == cell]
        worst = [max(float(row[f"{p}_{what}"]) for row in own for what in ("answers", "states")) for p in ("f32", "f64")]
        yield f"| {name} | {len(own)} | " + " | ".join("0" if x == 0 else f"{x:.1e}" for x in worst) + " |"


def solved():
    rows = [row for row in read("solved.csv") if row["layers"] != "1"]
    layers = sorted({int(row["layers"]) for row in rows})
    yield "| solved from zeros / from a state that the network has been in | " + " | ".join(f"k = {k}" for k in layers) + " |"
    yield "|---" * (len(layers) + 1) + "|"
    for cell, name in NAMES.items():
        own = {int(row["layers"]): row for row in rows if row["cell"] == cell}
        if own:
            yield f"| {name} | " + " | ".join(f"{own[k]['from_zeros']} / {own[k]['from_states']}" for k in layers) + " |"


def main():
    path = ROOT / "docs/FLATTENING.md"
    text = path.read_text()
    for name, table in [("theorem", differences()), ("solved", solved())]:
        head, rest = text.split(f"<!-- {name}: made by tools/flattening_tables.py -->\n")
        _, tail = rest.split(f"<!-- /{name} -->")
        text = head + f"<!-- {name}: made by tools/flattening_tables.py -->\n" + "\n".join(table) + f"\n<!-- /{name} -->" + tail
    path.write_text(text)


if __name__ == "__main__":
    main()
