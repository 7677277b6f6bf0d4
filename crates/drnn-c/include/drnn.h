/*
 * drnn: delayed recurrent networks. C interface.
 *
 * This file is generated from the sources of crate drnn-c by cbindgen: do not edit it.
 *
 * Errors. Functions that can fail return a drnn_status: DRNN_OK (0) or the kind of error, and
 * drnn_last_error() has the message, for each thread its own. No Rust panic leaves the library; one
 * inside it is DRNN_ERROR_INTERNAL, and its place is printed to stderr. Where memory runs out, the
 * program is aborted, except that a run which needs too much is refused beforehand.
 *
 * Ownership. The caller frees each handle that it made (drnn_.._load, drnn_.._new), once, with the
 * function of its type; freeing NULL does nothing. Streams and batches share their model, which may be freed
 * before them. Arrays are the caller's; the library reads and writes them during the call only.
 * Text and predictions that a function returns are the library's, valid as long as it says.
 *
 * Sizes. Every array comes with its number of elements. For inputs it must be exactly right, outputs
 * may have more. NULL is allowed for an array of 0 elements, and where a function says so. Arrays of
 * one call must not overlap, unless a function says so.
 *
 * Threads. A drnn_model does not change: any number of threads may use it at once. Streams and
 * batches may move between threads, but only one may use each at a time; a second one gets
 * DRNN_ERROR_BUSY. Freeing a handle that another thread is using is undefined. Threads of the library
 * do not survive fork(): load models after it.
 *
 * Undefined, as in all of C: pointers that are neither NULL nor to as much memory as their number
 * says, handles that were freed or come from elsewhere, text without a NUL at its end.
 *
 * ABI. Functions are never removed or changed, codes and struct fields never renumbered, within
 * one version of the shared library (libdrnn.so.0.1 for versions 0.1.x, libdrnn.so.1 for 1.x).
 * drnn_model_info and drnn_prediction may get more fields at their end; drnn_sequences and
 * drnn_states stay as they are.
 */

#ifndef DRNN_H
#define DRNN_H

#include <stddef.h>
#include <stdint.h>

#define DRNN_VERSION_MAJOR 0
#define DRNN_VERSION_MINOR 1
#define DRNN_VERSION_PATCH 0


/**
 * What a call returns. All but `DRNN_OK` are errors; `drnn_last_error` has the message. New codes may
 * be added at the end: treat codes that you do not know as errors.
 */
typedef enum drnn_status {
  /**
   * Success.
   */
  DRNN_OK = 0,
  /**
   * A NULL pointer or handle, a pointer that is not aligned, text that is not UTF-8, or a call
   * that does not fit the ones before it.
   */
  DRNN_ERROR_ARGUMENT = 1,
  /**
   * An array of the wrong size, or a length beyond the end of the array.
   */
  DRNN_ERROR_SHAPE = 2,
  /**
   * NaN, infinity, a token that the network does not know, or an element that its task refuses.
   */
  DRNN_ERROR_VALUE = 3,
  /**
   * A file that cannot be read.
   */
  DRNN_ERROR_FILE = 4,
  /**
   * A file, or bytes, that are not a model, or are damaged.
   */
  DRNN_ERROR_FORMAT = 5,
  /**
   * Bytes that are not a snapshot of this network, or are damaged.
   */
  DRNN_ERROR_SNAPSHOT = 6,
  /**
   * Something that this model cannot do: a bidirectional network cannot stream, a network that
   * reads tokens cannot read vectors, a tagger is no single network.
   */
  DRNN_ERROR_UNSUPPORTED = 7,
  /**
   * A buffer of the caller's that is too small for the outputs. Nothing was computed.
   */
  DRNN_ERROR_BUFFER = 8,
  /**
   * An id that names no stream of this batch, or is named twice in one call.
   */
  DRNN_ERROR_STREAM_ID = 9,
  /**
   * More memory than there is, or more than can be addressed.
   */
  DRNN_ERROR_MEMORY = 10,
  /**
   * The handle is in use by another thread.
   */
  DRNN_ERROR_BUSY = 11,
  /**
   * An environment variable (DRNN_THREADS, DRNN_ISA) with a value that is not allowed.
   */
  DRNN_ERROR_ENVIRONMENT = 12,
  /**
   * A defect of the library. The handle that the call used can only be freed.
   */
  DRNN_ERROR_INTERNAL = 13,
} drnn_status;

/**
 * A model. It does not change, and any number of threads may use it at once.
 */
typedef struct drnn_model drnn_model;

/**
 * One live sequence of a model. One thread may use it at a time.
 */
typedef struct drnn_stream drnn_stream;

/**
 * Live sequences of one model that are stepped together; they join and leave at any time. One thread
 * may use it at a time.
 */
typedef struct drnn_stream_batch drnn_stream_batch;

/**
 * One live sequence of a model with its task. One thread may use it at a time.
 */
typedef struct drnn_task_stream drnn_task_stream;

/**
 * What a model is. Fields may be added at the end.
 */
typedef struct drnn_model_info {
  /**
   * 1 if it is one network, for which all functions work; 0 for a tagger, which only
   * `drnn_task_stream_new` takes.
   */
  uint32_t network;
  /**
   * 1 if it can stream; 0 for a bidirectional network, which needs the end of a sequence first.
   */
  uint32_t streams;
  /**
   * q: floats of an element; 0 if the network reads tokens.
   */
  size_t inputs;
  /**
   * Tokens are below this; 0 if the network reads vectors.
   */
  size_t symbols;
  /**
   * m: floats of an output.
   */
  size_t outputs;
  /**
   * d: the output for an element is known once d more have been read.
   */
  size_t delay;
  /**
   * How many fewer outputs than elements a sequence has: d with look-ahead padding, else 0.
   */
  size_t look_ahead;
  /**
   * Outputs that are still due when a sequence ends, at most.
   */
  size_t finish_outputs;
  /**
   * Floats of h of one sequence: all layers and directions.
   */
  size_t h_width;
  /**
   * Floats of c of one sequence; 0 for cells without it.
   */
  size_t c_width;
  /**
   * Bytes of a snapshot of a stream.
   */
  size_t snapshot_size;
  /**
   * The number of parameters.
   */
  uint64_t parameters;
  /**
   * A hash of network and parameters. Snapshots fit models with the same one.
   */
  uint64_t fingerprint;
} drnn_model_info;

/**
 * Sequences to run: B rows of up to T steps. Set either `x` or `tokens`, by what the network reads,
 * and leave the rest zero.
 */
typedef struct drnn_sequences {
  /**
   * Vectors (T, B, q): element t of sequence b begins at `x[(t * B + b) * q]`. NULL for tokens.
   */
  const float *x;
  /**
   * Floats at `x`: T * B * q.
   */
  size_t x_len;
  /**
   * Tokens (T, B): element t of sequence b is `tokens[t * B + b]`. NULL for vectors.
   */
  const uint32_t *tokens;
  /**
   * Tokens at `tokens`: T * B.
   */
  size_t tokens_len;
  /**
   * T.
   */
  size_t steps;
  /**
   * B.
   */
  size_t rows;
  /**
   * Elements of each of the B sequences, 0 to T; what follows them is not read. NULL if all have T.
   */
  const size_t *lengths;
  /**
   * Not 0 if inputs and outputs are (B, T, ..) instead of (T, B, ..).
   */
  int batch_first;
} drnn_sequences;

/**
 * States of B sequences, as PyTorch's h_n and c_n: (layers * directions, B, n).
 */
typedef struct drnn_states {
  /**
   * Hidden states.
   */
  float *h;
  /**
   * Floats at `h`: B * `h_width` of the model's info.
   */
  size_t h_len;
  /**
   * Cell states; NULL for cells without them.
   */
  float *c;
  /**
   * Floats at `c`: B * `c_width` of the model's info.
   */
  size_t c_len;
} drnn_states;

/**
 * The prediction for one element. It belongs to its stream and is valid until the next call with that.
 * Fields may be added at the end.
 */
typedef struct drnn_prediction {
  /**
   * Index of the element in its sequence.
   */
  uint64_t position;
  /**
   * What is predicted, as UTF-8: the tag of a word, a character (as it was given, or the most
   * probable one for a masked one), the class of a series. NULL if values are predicted.
   */
  const char *label;
  /**
   * Its probability: 1 for a character that was given, 0 if `label` is NULL.
   */
  double probability;
  /**
   * The targets of a series in their own units, in the model's order; the outputs of a network
   * without a task. NULL if a label is predicted.
   */
  const double *values;
  /**
   * The number of `values`.
   */
  size_t values_len;
} drnn_prediction;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The message of the last call that failed on this thread, in English; "" if none has. It belongs to
 * the library and is valid until the next call that fails on this thread. Calls that succeed leave it
 * as it is.
 */
const char *drnn_last_error(void);

/**
 * The library's version, "0.1.0". It is static.
 */
const char *drnn_version(void);

/**
 * Loads a model file: drnn's own, a PyTorch state dict (.safetensors, .pt) or an ONNX graph of one
 * recurrence. (Convert a file that has several first, in Python:
 * `drnn.Model.load(file, prefix="encoder.lstm").save("model.safetensors")`.)
 *
 * `path` is a file name as the system has it (on Windows UTF-8). `threads` is how many threads a call
 * may use, its caller's included: 1 to 1024 for threads of the model's own, or 0 for those that all
 * such models of the process share, as many as there are cores or as the environment variable
 * DRNN_THREADS says. It changes no bit of any result; for a stream of a small network 1 is best. The
 * first load makes the shared threads, which sleep until they are needed.
 *
 * On success `*model` is a handle for `drnn_model_free`; on failure it is NULL.
 */
enum drnn_status drnn_model_load(const char *path,
                                 uint32_t threads,
                                 struct drnn_model **model);

/**
 * Loads a model from the bytes of such a file. They are not needed afterwards.
 */
enum drnn_status drnn_model_load_bytes(const uint8_t *bytes,
                                       size_t bytes_len,
                                       uint32_t threads,
                                       struct drnn_model **model);

/**
 * Frees a model; NULL is allowed. Its streams and batches remain valid: they share what they need.
 */
void drnn_model_free(struct drnn_model *model);

/**
 * Says what a model is. `info_size` is `sizeof(drnn_model_info)`: a program that was compiled with an
 * older header gets the fields that it knows.
 */
enum drnn_status drnn_model_get_info(const struct drnn_model *model,
                                     struct drnn_model_info *info,
                                     size_t info_size);

/**
 * A description for people, one line of UTF-8: "dlstm(32 units, delay 3): ..". It belongs to the model
 * and is valid until that is freed. NULL for NULL.
 */
const char *drnn_model_description(const struct drnn_model *model);

/**
 * Runs whole sequences.
 *
 * `start` is where they begin; NULL for zeros. `outputs` gets (T', B, m), or (B, T', m) if the batch is
 * batch-first, with T' = max(0, T - look_ahead): aligned with the input whatever the delay, zeros after
 * the end of each sequence. `outputs_len` is at least that many floats. `last`, unless it is NULL, says
 * where to put the states after the last step; its arrays may be those of `start`. Other arrays must
 * not overlap.
 *
 * On failure nothing is written.
 */
enum drnn_status drnn_model_run(const struct drnn_model *model,
                                const struct drnn_sequences *sequences,
                                const struct drnn_states *start,
                                float *outputs,
                                size_t outputs_len,
                                const struct drnn_states *last);

/**
 * Begins a live sequence. On success `*stream` is a handle for `drnn_stream_free`; on failure it is
 * NULL. A bidirectional network cannot stream.
 */
enum drnn_status drnn_stream_new(const struct drnn_model *model, struct drnn_stream **stream);

/**
 * Reads the next element, or several: `x` are k vectors of q floats, `x_len` is k * q. Writes the
 * outputs that are known by them, one after another, to `outputs`, which has at least k * m floats.
 * `*count`, unless `count` is NULL, is how many were written: for one element 0 or 1, and 0 for the
 * first d elements.
 *
 * An element that is refused changes nothing; those before it have been read, and `*count` outputs
 * written.
 */
enum drnn_status drnn_stream_push(struct drnn_stream *stream,
                                  const float *x,
                                  size_t x_len,
                                  float *outputs,
                                  size_t outputs_len,
                                  size_t *count);

/**
 * The same for a network that reads tokens: k tokens.
 */
enum drnn_status drnn_stream_push_tokens(struct drnn_stream *stream,
                                         const uint32_t *tokens,
                                         size_t tokens_len,
                                         float *outputs,
                                         size_t outputs_len,
                                         size_t *count);

/**
 * Ends the sequence: writes the outputs still due, in order, and begins a new sequence. `outputs` has
 * at least `finish_outputs` * m floats (see `drnn_model_info`), whatever is due; `*count`, unless
 * `count` is NULL, is how many outputs were written.
 */
enum drnn_status drnn_stream_finish(struct drnn_stream *stream,
                                    float *outputs,
                                    size_t outputs_len,
                                    size_t *count);

/**
 * Begins a new sequence, without the outputs still due.
 */
enum drnn_status drnn_stream_reset(struct drnn_stream *stream);

/**
 * The number of elements read since the sequence began; a snapshot has it too.
 */
enum drnn_status drnn_stream_seen(const struct drnn_stream *stream, uint64_t *seen);

/**
 * Writes the stream's state to `bytes`, which has at least `snapshot_size` bytes (see
 * `drnn_model_info`); `*written`, unless `written` is NULL, is how many it took. Any stream of the same
 * model goes on from there, also in another process or on another machine; the Rust and Python
 * libraries read it too.
 */
enum drnn_status drnn_stream_snapshot(struct drnn_stream *stream,
                                      uint8_t *bytes,
                                      size_t bytes_len,
                                      size_t *written);

/**
 * Goes on from a snapshot. Bytes of another network, or damaged ones, are refused, and nothing changes.
 */
enum drnn_status drnn_stream_restore(struct drnn_stream *stream,
                                     const uint8_t *bytes,
                                     size_t bytes_len);

/**
 * Frees a stream; NULL is allowed.
 */
void drnn_stream_free(struct drnn_stream *stream);

/**
 * An empty batch. On success `*batch` is a handle for `drnn_stream_batch_free`; on failure it is NULL.
 */
enum drnn_status drnn_stream_batch_new(const struct drnn_model *model,
                                       struct drnn_stream_batch **batch);

/**
 * Adds a sequence that has not begun. `*id` names it in this batch; it is never 0, and never the same
 * again.
 */
enum drnn_status drnn_stream_batch_join(struct drnn_stream_batch *batch,
                                        uint64_t *id);

/**
 * Removes a sequence, without the outputs still due.
 */
enum drnn_status drnn_stream_batch_leave(struct drnn_stream_batch *batch, uint64_t id);

/**
 * Reads one element of each of `ids_len` streams: `x` is (ids_len, q), `x_len` the number of its
 * floats. The output for `ids[i]`, if one is known now, goes to `outputs[i * m]`; `known[i]` is then 1,
 * else 0, and the row is left as it is. `outputs_len` is at least ids_len * m. `known`, an array of
 * `ids_len`, may be NULL.
 *
 * If anything is refused, no stream has moved.
 */
enum drnn_status drnn_stream_batch_step(struct drnn_stream_batch *batch,
                                        const uint64_t *ids,
                                        size_t ids_len,
                                        const float *x,
                                        size_t x_len,
                                        float *outputs,
                                        size_t outputs_len,
                                        uint8_t *known);

/**
 * The same for a network that reads tokens: one for each of `ids_len` streams.
 */
enum drnn_status drnn_stream_batch_step_tokens(struct drnn_stream_batch *batch,
                                               const uint64_t *ids,
                                               size_t ids_len,
                                               const uint32_t *tokens,
                                               size_t tokens_len,
                                               float *outputs,
                                               size_t outputs_len,
                                               uint8_t *known);

/**
 * Ends streams: writes the outputs still due and removes the streams. Those of `ids[i]` go, in order,
 * to `outputs[i * finish_outputs * m]` and following (`finish_outputs` is in `drnn_model_info`);
 * `counts[i]` is how many they are. `outputs_len` is at least ids_len * finish_outputs * m. `counts`, an
 * array of `ids_len`, may be NULL.
 */
enum drnn_status drnn_stream_batch_finish(struct drnn_stream_batch *batch,
                                          const uint64_t *ids,
                                          size_t ids_len,
                                          float *outputs,
                                          size_t outputs_len,
                                          size_t *counts);

/**
 * Writes the state of one stream, as `drnn_stream_snapshot` does; a `drnn_stream` reads it too.
 */
enum drnn_status drnn_stream_batch_snapshot(struct drnn_stream_batch *batch,
                                            uint64_t id,
                                            uint8_t *bytes,
                                            size_t bytes_len,
                                            size_t *written);

/**
 * Lets one stream go on from a snapshot, as `drnn_stream_restore` does.
 */
enum drnn_status drnn_stream_batch_restore(struct drnn_stream_batch *batch,
                                           uint64_t id,
                                           const uint8_t *bytes,
                                           size_t bytes_len);

/**
 * Frees a batch and its streams; NULL is allowed.
 */
void drnn_stream_batch_free(struct drnn_stream_batch *batch);

/**
 * Begins a live sequence of a model with its task; of a network without one, elements are lines of
 * numbers. On success `*stream` is a handle for `drnn_task_stream_free`; on failure it is NULL.
 */
enum drnn_status drnn_task_stream_new(const struct drnn_model *model,
                                      struct drnn_task_stream **stream);

/**
 * Reads the next element, a text of UTF-8 that ends with NUL:
 *
 * | model | element |
 * |---|---|
 * | tagger | a word: "ants" |
 * | masked characters | one character: "a"; "_" for a masked one |
 * | series | its columns: "0.5,1", or "0.5,2016-07-01 13:45,red"; NA or an empty field is missing |
 * | network | its numbers: "0.5 1"; or a token: "7" |
 *
 * `*prediction` is the prediction for the element d before it, or NULL if there is none yet. An element
 * that is refused changes nothing.
 */
enum drnn_status drnn_task_stream_push(struct drnn_task_stream *stream,
                                       const char *element,
                                       const struct drnn_prediction **prediction);

/**
 * Ends the sequence: each call yields the next prediction still due, then NULL. Call it until then;
 * the next element begins a new sequence.
 */
enum drnn_status drnn_task_stream_finish(struct drnn_task_stream *stream,
                                         const struct drnn_prediction **prediction);

/**
 * Frees a stream; NULL is allowed.
 */
void drnn_task_stream_free(struct drnn_task_stream *stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DRNN_H */
