// drnn in JavaScript: delayed recurrent networks in browsers and Node.js, computed by WebAssembly.
//
// The module has two byte buffers, one for arguments and one for results (src/exports.rs).

const FAILED = 0, NONE = 2;

let shared; // the instance that `load` uses, once it is compiled

/** Another instance of the module; `load` has one. `wasm` is where the module is, if not next to this file. */
export async function instantiate({ wasm = new URL("./drnn.wasm", import.meta.url) } = {}) {
  return new Drnn((await WebAssembly.instantiate(await bytesOf(wasm), {})).instance);
}

/** Loads a model: bytes, a URL, a path (Node.js) or a Response. */
export async function load(source, options = {}) {
  shared ??= instantiate().catch((e) => {
    shared = undefined; // a failed download may be repeated
    throw e;
  });
  return (await shared).load(source, options);
}

const isNode = typeof process === "object" && !!process.versions?.node && typeof window === "undefined";

async function bytesOf(source) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (isNode && !/^https?:/.test(String(source.href ?? source)) && !(source instanceof Response)) {
    const { readFile } = await import("node:fs/promises");
    return new Uint8Array(await readFile(source));
  }
  const response = source instanceof Response ? source : await fetch(source);
  if (!response.ok) throw new Error(`${response.url}: ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}

/** The name of a file without its folder and extension. */
function nameOf(source) {
  const path = source instanceof Response ? source.url : String(source?.href ?? source);
  const bytes = source instanceof ArrayBuffer || ArrayBuffer.isView(source);
  return bytes ? "model" : (path.split(/[\\/]/).pop() ?? "").replace(/[?#].*$/, "").replace(/\.[^.]*$/, "") || "model";
}

const encoder = new TextEncoder(), decoder = new TextDecoder();

/** An instance of the module. Instances share nothing; each runs on the thread that uses it. */
export class Drnn {
  #exports; #broken = "";
  /** Version of drnn. */
  version;
  /** What its kernels are compiled for. */
  instructionSet;

  constructor({ exports }) {
    this.#exports = exports;
    this._call("drnn_about");
    Object.assign(this, JSON.parse(this._text()));
  }

  /** Loads a model: bytes, a URL, a path (Node.js) or a Response. */
  async load(source, { name = nameOf(source) } = {}) {
    return this.read(await bytesOf(source), name);
  }

  /** Reads a model from the bytes of its file. */
  read(bytes, name = "model") {
    const head = encoder.encode(name);
    const to = this._input(head.length + bytes.byteLength);
    to.set(head);
    to.set(new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength), head.length);
    try {
      return new Model(this, this._call("drnn_load", head.length));
    } finally {
      if (!this.#broken) this.#exports.drnn_input(0); // the file's bytes
    }
  }

  /** Calls a function of the module; an error that it reports is thrown. */
  _call(name, ...values) {
    if (this.#broken) throw new Error(this.#broken);
    let status;
    try {
      status = this.#exports[name](...values) >>> 0;
    } catch (e) {
      // A trap leaves memory in an unknown state. It is a fault of drnn, or memory that has run out.
      this.#broken = `drnn has stopped and must be loaded anew: ${e.message}`;
      throw new Error(this.#broken, { cause: e });
    }
    if (status === FAILED) throw new Error(this._text());
    return status;
  }

  /** Memory for arguments; valid until the next call. */
  _input(length) {
    const at = this.#exports.drnn_input(length) >>> 0;
    if (!at) throw new Error(`no memory for ${length} bytes`);
    return new Uint8Array(this.#exports.memory.buffer, at, length);
  }

  _write(text) {
    const bytes = encoder.encode(text);
    this._input(bytes.length).set(bytes);
  }

  _bytes() {
    const at = this.#exports.drnn_result() >>> 0, length = this.#exports.drnn_result_length() >>> 0;
    return new Uint8Array(this.#exports.memory.buffer, at, length);
  }

  _text() {
    return decoder.decode(this._bytes());
  }

  _floats() {
    return new Float32Array(this._bytes().slice().buffer);
  }
}

/** What a handle of the module stands for. */
class Held {
  constructor(drnn, handle) {
    Object.defineProperties(this, { drnn: { value: drnn }, handle: { value: handle, writable: true } });
  }

  _call(name, ...values) {
    if (!this.handle) throw new Error(`the ${this.constructor.name.toLowerCase()} was released`);
    return this.drnn._call(name, this.handle, ...values);
  }

  /** Releases its memory. */
  free() {
    if (this.handle) this._call("drnn_free");
    this.handle = 0;
  }
}

/** A model with its task. */
export class Model extends Held {
  #info;

  /** Name, task, elements, predictions, delay: as in the list of models of `drnn serve`. */
  get info() {
    if (!this.#info) {
      this._call("drnn_info");
      this.#info = JSON.parse(this.drnn._text());
    }
    return this.#info;
  }

  /** Predictions for whole sequences of elements: an array for each. */
  run(sequences) {
    return this.#run({ sequences });
  }

  /** Predictions for whole texts, of models that read characters or words: an array for each. */
  runTexts(texts) {
    return this.#run({ texts });
  }

  #run(request) {
    this.drnn._write(JSON.stringify(request));
    this._call("drnn_run");
    return JSON.parse(this.drnn._text());
  }

  /**
   * Outputs of the network itself: x (steps, rows, q), or tokens (steps, rows), to (steps', rows, m), row after row.
   * `lengths` has the length of each row; what follows it is not read.
   */
  runNetwork(elements, { rows = 1, lengths } = {}) {
    const { inputs, tokens } = this.info.io;
    const values = tokens ? Uint32Array.from(elements, index) : Float32Array.from(elements);
    const steps = values.length / (rows * (tokens ? 1 : inputs)) || 0;
    if (!Number.isInteger(steps) || !(rows > 0)) {
      throw new Error(`${values.length} ${tokens ? "tokens" : "numbers"} are not whole steps of ${rows} rows`);
    }
    if (lengths && lengths.length !== rows) throw new Error(`${lengths.length} lengths, expected ${rows}`);
    const ends = lengths ? Uint32Array.from(lengths, index) : new Uint32Array();
    const to = this.drnn._input(values.byteLength + ends.byteLength);
    to.set(new Uint8Array(values.buffer));
    to.set(new Uint8Array(ends.buffer), values.byteLength);
    this._call("drnn_run_network", steps, rows, lengths ? 1 : 0);
    return this.drnn._floats();
  }

  /** The text with its masks, _ and [MASK], filled in. */
  fill(text) {
    this.drnn._write(text);
    this._call("drnn_fill");
    return this.drnn._text();
  }

  /** Words with their tags: of a text, or of an array of words. */
  tag(text) {
    const words = Array.isArray(text);
    this.drnn._write(words ? JSON.stringify(text) : text);
    this._call("drnn_tag", words ? 1 : 0);
    return JSON.parse(this.drnn._text());
  }

  /** Begins a live sequence of elements. */
  stream() {
    return new Stream(this.drnn, this._call("drnn_stream"));
  }

  /** Begins a live sequence of the network itself: numbers or tokens in, its outputs out. */
  networkStream() {
    return new NetworkStream(this.drnn, this._call("drnn_network_stream"), this.info.io);
  }
}

/** What a token or a length must be. */
function index(value) {
  if (!Number.isInteger(value) || value < 0 || value > 0xffffffff) throw new Error(`${value} is not a number from 0`);
  return value;
}

class AnyStream extends Held {
  /** Elements read since the sequence began. */
  get position() {
    this._call("drnn_position");
    return Number(this.drnn._text());
  }

  /** Begins a new sequence, without the outputs still due. */
  reset() {
    this._call("drnn_reset");
  }

  /** The state as bytes, to go on later or elsewhere. */
  snapshot() {
    this._call("drnn_snapshot");
    return this.drnn._bytes().slice();
  }

  /** Goes on from a snapshot; one of another model is refused, and nothing changes. */
  restore(bytes) {
    this.drnn._input(bytes.length).set(bytes);
    this._call("drnn_restore");
  }
}

/** A live sequence of a model. */
export class Stream extends AnyStream {
  /**
   * Reads the next element: a character (null is a masked one), a word, numbers, a token, or fields by name. Returns
   * the prediction for the element d before it, or null. A refused element changes nothing.
   */
  push(element) {
    this.drnn._write(JSON.stringify(ArrayBuffer.isView(element) ? [...element] : (element ?? null)));
    return this._call("drnn_push") === NONE ? null : JSON.parse(this.drnn._text());
  }

  /** Ends the sequence: the predictions still due. The next element begins a new sequence. */
  flush() {
    this._call("drnn_flush");
    return JSON.parse(this.drnn._text());
  }
}

/** A live sequence of a model's network. */
export class NetworkStream extends AnyStream {
  #io;

  constructor(drnn, handle, io) {
    super(drnn, handle);
    this.#io = io;
  }

  /** Reads q numbers, or a token. Returns the network's outputs for the element d before, or null. */
  push(element) {
    let status;
    if (this.#io.tokens) {
      status = this._call("drnn_push_token", index(element));
    } else {
      const x = element instanceof Float32Array ? element : Float32Array.from(element);
      this.drnn._input(x.byteLength).set(new Uint8Array(x.buffer, x.byteOffset, x.byteLength));
      status = this._call("drnn_push_numbers");
    }
    return status === NONE ? null : this.drnn._floats();
  }

  /** Ends the sequence: the outputs still due, one array for each element. */
  finish() {
    this._call("drnn_finish");
    const all = this.drnn._floats(), m = this.#io.outputs;
    return Array.from({ length: all.length / m }, (_, i) => all.subarray(i * m, (i + 1) * m));
  }
}
