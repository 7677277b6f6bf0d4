// The parts of tests/node.rs that run under Node.js: node.mjs PART PACKAGE FOLDER

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [part, folder] = [process.argv[2], process.argv[4]];
const { instantiate, load } = await import(pathToFileURL(join(process.argv[3], "drnn.js")));
const drnn = await instantiate();
assert.equal(drnn.instructionSet, "simd128");
const json = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));

const CLOSE = 1e-5;
function close(found, expected, name) {
  assert.equal(found.length, expected.length, name);
  found.forEach((x, i) => assert.ok(Math.abs(x - expected[i]) <= CLOSE, `${name}: ${i}: ${x}, expected ${expected[i]}`));
}

/** Every prediction the same, but for the last digits of its numbers. */
function same(found, expected, at = "") {
  if (typeof expected === "number") return close([found], [expected], at);
  if (expected === null || typeof expected !== "object") return assert.equal(found, expected, at);
  assert.deepEqual(Object.keys(found).sort(), Object.keys(expected).sort(), at);
  for (const key of Object.keys(expected)) same(found[key], expected[key], `${at}.${key}`);
}

function networks() {
  for (const { name, file, rows, lengths, elements, portable, fastest } of json("cases.json")) {
    const model = drnn.read(readFileSync(join(folder, file)), name);
    const { inputs, tokens, outputs } = model.info.io;
    const found = model.runNetwork(elements, { rows, lengths });
    close(found, portable, `${name}, portable`);
    if (fastest) close(found, fastest, `${name}, the fastest instruction set`);
    assert.throws(() => model.runNetwork(elements.slice(1), { rows: 7 }), /Error: \d+ (numbers|tokens)/, name);
    if (!model.info.streams) {
      assert.throws(() => model.networkStream(), /bidirectional/);
      continue;
    }
    const q = tokens ? 1 : inputs;
    for (let row = 0; row < rows; row++) {
      const x = (t) => elements.slice((t * rows + row) * q, (t * rows + row + 1) * q);
      const live = [];
      let stream = model.networkStream();
      for (let t = 0; t < lengths[row]; t++) {
        if (t === 7) { // another stream goes on
          const bytes = stream.snapshot();
          stream.free();
          stream = model.networkStream();
          stream.restore(bytes);
          assert.equal(stream.position, 7);
        }
        const y = stream.push(tokens ? x(t)[0] : Float32Array.from(x(t)));
        if (y) live.push(y);
      }
      live.push(...stream.finish());
      const whole = live.map((_, t) => found.slice((t * rows + row) * outputs, (t * rows + row + 1) * outputs));
      assert.deepEqual(live, whole, `${name}: a stream equals a run to the bit`);
      stream.push(tokens ? 0 : new Float32Array(inputs));
      stream.reset();
      assert.equal(stream.position, 0);
      stream.free();
      assert.throws(() => stream.push(0), /released/);
    }
    model.free();
    assert.throws(() => model.info.name && model.stream(), /released/);
  }
}

async function tasks() {
  const expected = json("expected.json");
  const open = (name) => load(join(folder, `${name}.safetensors`));
  const [chars, both, tagger] = await Promise.all(["chars-en", "chars-en-bilstm", "tagger-en"].map(open));
  const { text, sentence } = expected;
  assert.deepEqual([chars.info, tagger.info], expected.info);
  assert.deepEqual([chars.fill(text), both.fill(text)], expected.fill);
  const texts = [text.replace("[MASK]", "_"), "a"];
  same([chars.runTexts(texts), both.runTexts(texts)], expected.runs);
  same(chars.run([["a", null, "b"]]), expected.elements);
  same(tagger.tag(sentence), expected.tags);
  same(tagger.tag(["Ants", "run"]), expected.words);
  // Streams equal runs to the bit, with a snapshot on the way.
  const letters = [...texts[0]].map((c) => (c === "_" ? null : c));
  for (const [model, elements] of [[chars, letters], [tagger, expected.tags.map(({ word }) => word)]]) {
    let stream = model.stream();
    const found = [];
    elements.forEach((element, at) => {
      if (at === 4) {
        const bytes = stream.snapshot();
        stream.free();
        stream = model.stream();
        stream.restore(bytes);
      }
      const prediction = stream.push(element);
      if (prediction) assert.equal(prediction.position, at - model.info.delay);
      found.push(...(prediction ? [prediction] : []));
    });
    assert.equal(stream.position, elements.length);
    found.push(...stream.flush());
    assert.deepEqual(found, model.run([elements])[0]);
    assert.equal(stream.position, 0);
  }
  const errors = [
    () => chars.drnn.read(new TextEncoder().encode("not a model"), "x"),
    () => both.stream(),
    () => chars.tag("a"),
    () => tagger.fill("a"),
    () => chars.stream().push("ab"),
    () => tagger.run([["a", 5]]),
    () => chars.stream().restore(new TextEncoder().encode("nothing")),
    () => chars.runNetwork([1, 2, 3], { rows: 2 }),
  ];
  const message = (act) => {
    try { act(); } catch (e) { return e.message; }
    return "no error";
  };
  assert.deepEqual(errors.slice(0, -1).map(message), expected.errors.slice(0, -1));
  assert.match(message(errors.at(-1)), /3 tokens are not whole steps/);
  await assert.rejects(load(join(folder, "absent")), /absent/);
}

/** Damaged files, and what is not a file at all: an Error each, never a trap. */
function hostile() {
  let state = 1; // a small generator, so that a failure can be repeated
  const random = (below) => (state = (state * 48271) % 0x7fffffff) % below;
  const spec = { read: 0, refused: 0 };
  const attempt = (bytes, what) => {
    try {
      const model = drnn.read(bytes, "x");
      spec.read += 1;
      const { io, streams } = model.info;
      if (streams) {
        const stream = model.networkStream();
        assert.throws(() => stream.restore(bytes), Error, what);
        stream.push(io.tokens ? 0 : new Float32Array(io.inputs));
        stream.free();
      }
      model.free();
    } catch (e) {
      assert.ok(!(e instanceof assert.AssertionError || e.cause instanceof WebAssembly.RuntimeError), `${what}: ${e.message}`);
      spec.refused += 1;
    }
  };
  const files = readdirSync(folder).map((name) => [name, new Uint8Array(readFileSync(join(folder, name)))]);
  for (const [name, bytes] of files) {
    attempt(bytes, name);
    const large = bytes.length > 100_000;
    for (let i = 0; i < (large ? 20 : 60); i++) {
      attempt(bytes.subarray(0, random(bytes.length + 1)), `${name}, cut`);
      const changed = bytes.slice();
      // Mostly in the header, where lengths and shapes are.
      for (let n = 0; n <= random(3); n++) changed[random(Math.min(bytes.length, i % 3 ? 600 : bytes.length))] = random(256);
      attempt(changed, `${name}, changed ${i}`);
    }
  }
  assert.ok(spec.refused > 1000 && spec.read > 10, JSON.stringify(spec));
  // The module still works.
  const tagger = drnn.read(files.find(([name]) => name === "tagger.bin")[1], "tagger");
  assert.equal(tagger.tag("Ants run.")[0].tag, "NOUN");
}

await { networks, tasks, hostile }[part]();
