#!/usr/bin/env bash
# Builds the npm package `drnn` in target/wasm: crates/drnn-wasm/build.sh [FOLDER]
#
# Exit status 77, with the reason on stderr, where there is no compiler for wasm32 (tools/cross).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
out=$(realpath -m "${1:-$target/wasm}")

cd "$root"
# The whole command line of rustc, so that flags of the caller's machine do not get in.
DRNN_CROSS_SMALL=1 RUSTFLAGS="-Ctarget-feature=+simd128" \
    tools/cross wasm32-unknown-unknown build --quiet --profile wasm -p drnn-wasm
mkdir -p "$out"
cp "$target/cross/wasm32-unknown-unknown/wasm/drnn_wasm.wasm" "$out/drnn.wasm"
cp "$here"/npm/{drnn.js,drnn.d.ts,package.json} "$here/README.md" LICENSE-MIT LICENSE-APACHE "$out"
size=$(gzip -9 -c "$out/drnn.wasm" | wc -c)
echo "$out: drnn.wasm has $((size / 1000)) kB compressed by gzip"
[ "$size" -lt 300000 ] || { echo "drnn.wasm has 300 kB or more" >&2; exit 1; }
