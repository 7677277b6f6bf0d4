/** Bytes of a file, where it is, or a response with it. Paths are for Node.js. */
export type Source = ArrayBuffer | ArrayBufferView | URL | string | Response;

/** An element of a sequence: what it may be is in the model's `info.reads`. */
export type Element =
  | string // a character, or a word
  | null // a masked character
  | number // a token, or the number of a model that reads one
  | (number | string | null)[] // numbers, or fields of a series; null is missing
  | Float32Array
  | Record<string, number | string | null>; // fields by name

/** The prediction for one element, as `drnn serve` sends it. */
export interface Prediction {
  /** Index of the element in its sequence. */
  position: number;
  /** Outputs of a model without a task, or targets of a series by name. */
  values?: number[] | Record<string, number>;
  class?: string;
  probability?: number;
  /** All classes, the most probable first. */
  probabilities?: Record<string, number>;
  word?: string;
  tag?: string;
  character?: string;
  masked?: boolean;
  /** For a masked character, best first. */
  alternatives?: { character: string; probability: number }[];
}

/** A word with its tag. */
export interface Tagged {
  position: number;
  word: string;
  tag: string;
  probability: number;
}

/** The description of a model, as in the list of models of `drnn serve`. */
export interface Info {
  name: string;
  task: "chars" | "series" | "tagger" | "plain";
  /** Its elements. */
  reads: {
    kind: "numbers" | "fields" | "tokens" | "characters" | "words";
    count?: number;
    names?: string[];
    columns?: { name: string; kind: unknown }[];
    scales?: ({ mean: number; sd: number } | null)[];
  };
  /** Its predictions. */
  answers: {
    kind: "numbers" | "values" | "classes" | "tags" | "characters";
    count?: number;
    names?: string[];
    alphabet?: string;
  };
  description: string;
  /** The network's spec as text. */
  network: string;
  /** The delay d in elements; null for a bidirectional model. */
  delay: number | null;
  parameters: number;
  /** Whether it runs on live sequences. */
  streams: boolean;
  /** Width of the network's input (for tokens, the number of symbols) and of its output. */
  io: { inputs: number; tokens: boolean; outputs: number };
}

/** Loads a model, with an instance of the WebAssembly module that all such models share. */
export function load(source: Source, options?: { name?: string }): Promise<Model>;

/** Another instance of the module; `wasm` is where it is, if not next to this file. */
export function instantiate(options?: { wasm?: Source }): Promise<Drnn>;

/** An instance of the module. Instances share nothing. */
export class Drnn {
  private constructor();
  readonly version: string;
  readonly instructionSet: string;
  load(source: Source, options?: { name?: string }): Promise<Model>;
  /** Reads a model from the bytes of its file. */
  read(bytes: ArrayBuffer | ArrayBufferView, name?: string): Model;
}

interface Held {
  /** Releases its memory. JavaScript's garbage collector does not see it. */
  free(): void;
}

/** A model with its task. */
export interface Model extends Held {
  readonly info: Info;
  /** Predictions for whole sequences of elements: an array for each. */
  run(sequences: Element[][]): Prediction[][];
  /** The same for texts, of models that read characters (_ is masked) or words. */
  runTexts(texts: string[]): Prediction[][];
  /**
   * Outputs of the network itself: x (steps, rows, q), or tokens (steps, rows), to (steps', rows, m), row after
   * row. `lengths` has the length of each row; what follows it is not read.
   */
  runNetwork(elements: ArrayLike<number>, options?: { rows?: number; lengths?: ArrayLike<number> }): Float32Array;
  /** The text with its masks, _ and [MASK], filled in. */
  fill(text: string): string;
  /** Words with their tags: of a text, or of an array of words. */
  tag(text: string | string[]): Tagged[];
  /** Begins a live sequence of elements. */
  stream(): Stream;
  /** Begins a live sequence of the network itself. */
  networkStream(): NetworkStream;
}

interface AnyStream extends Held {
  /** Elements read since the sequence began. */
  readonly position: number;
  /** Begins a new sequence, without the outputs still due. */
  reset(): void;
  /** The state as bytes, to go on later or elsewhere. */
  snapshot(): Uint8Array;
  /** Goes on from a snapshot; one of another model is refused, and nothing changes. */
  restore(bytes: Uint8Array): void;
}

/** A live sequence of a model. */
export interface Stream extends AnyStream {
  /** Reads the next element; the prediction for the element d before it, or null. A refused one changes nothing. */
  push(element: Element): Prediction | null;
  /** Ends the sequence: the predictions still due. The next element begins a new one. */
  flush(): Prediction[];
}

/** A live sequence of a model's network: q numbers or a token in, m outputs out. */
export interface NetworkStream extends AnyStream {
  push(element: ArrayLike<number> | number): Float32Array | null;
  /** Ends the sequence: the outputs still due, an array for each element. */
  finish(): Float32Array[];
}
