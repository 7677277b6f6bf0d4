/*
 * Streams numbers through a model: a line of q numbers in, a line of m outputs out, d lines later.
 *
 *     stream MODEL [STATE] < numbers
 *
 * With STATE, the sequence goes on where it stopped the last time: the state is read from that file,
 * if it is there, and written to it at the end. Without, the sequence ends with the input, and the
 * last d outputs follow.
 *
 *     cc -std=c99 stream.c $(pkg-config --cflags --libs drnn) -o stream
 */
#include <drnn.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what)
{
    fprintf(stderr, "stream: %s: %s\n", what, drnn_last_error());
    return 1;
}

static void print(const float *outputs, size_t count, size_t m)
{
    size_t row, i;
    for (row = 0; row < count; row++) {
        for (i = 0; i < m; i++)
            printf(i + 1 < m ? "%.9g " : "%.9g\n", outputs[row * m + i]);
    }
}

/* Reads one element: 1, or 0 at the end of the input. */
static int element(float *x, size_t q)
{
    size_t i;
    for (i = 0; i < q; i++) {
        if (scanf("%f", &x[i]) != 1)
            return 0;
    }
    return 1;
}

/* Goes on from the state in a file; a file that does not exist is a new sequence. */
static int restore(drnn_stream *stream, const char *path, uint8_t *state, size_t size)
{
    FILE *file = fopen(path, "rb");
    size_t length;
    if (file == NULL)
        return 0;
    length = fread(state, 1, size, file);
    fclose(file);
    return drnn_stream_restore(stream, state, length) == DRNN_OK ? 0 : failed(path);
}

static int save(drnn_stream *stream, const char *path, uint8_t *state, size_t size)
{
    FILE *file;
    size_t length, written;
    if (drnn_stream_snapshot(stream, state, size, &length) != DRNN_OK)
        return failed("snapshot");
    file = fopen(path, "wb");
    written = file == NULL ? 0 : fwrite(state, 1, length, file);
    if (file == NULL || fclose(file) != 0 || written != length) {
        perror(path);
        return 1;
    }
    return 0;
}

/* The buffers are large enough for an element, an output or the last d of them, and a state. */
static int run(drnn_stream *stream, const drnn_model_info *info, const char *path, float *x,
               float *outputs, uint8_t *state)
{
    size_t room = (info->finish_outputs + 1) * info->outputs, count;
    if (path != NULL && restore(stream, path, state, info->snapshot_size) != 0)
        return 1;
    while (element(x, info->inputs)) {
        if (drnn_stream_push(stream, x, info->inputs, outputs, room, &count) != DRNN_OK)
            return failed("element");
        print(outputs, count, info->outputs);
    }
    if (path != NULL)
        return save(stream, path, state, info->snapshot_size);
    if (drnn_stream_finish(stream, outputs, room, &count) != DRNN_OK)
        return failed("finish");
    print(outputs, count, info->outputs);
    return 0;
}

int main(int argc, char **argv)
{
    drnn_model *model = NULL;
    drnn_stream *stream = NULL;
    drnn_model_info info;
    int status = 1;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: stream MODEL [STATE] < numbers\n");
        return 2;
    }
    if (drnn_model_load(argv[1], 1, &model) != DRNN_OK)
        return failed("model");
    fprintf(stderr, "%s\n", drnn_model_description(model));
    if (drnn_stream_new(model, &stream) != DRNN_OK ||
        drnn_model_get_info(model, &info, sizeof info) != DRNN_OK) {
        failed("model");
    } else if (info.inputs == 0) {
        fprintf(stderr, "stream: the model reads tokens, not numbers\n");
    } else {
        float *x = malloc(info.inputs * sizeof *x);
        float *outputs = malloc((info.finish_outputs + 1) * info.outputs * sizeof *outputs);
        uint8_t *state = malloc(info.snapshot_size);
        if (x != NULL && outputs != NULL && state != NULL)
            status = run(stream, &info, argc == 3 ? argv[2] : NULL, x, outputs, state);
        free(x);
        free(outputs);
        free(state);
    }
    drnn_stream_free(stream);
    drnn_model_free(model);
    return status;
}
