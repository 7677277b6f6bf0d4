/*
 * Predictions of a model with its task, live: an element in, its prediction out, d elements later.
 *
 *     tag MODEL ELEMENT ..
 *     tag tagger-en.safetensors The ants run .
 *
 *     cc -std=c99 tag.c $(pkg-config --cflags --libs drnn) -o tag
 */
#include <drnn.h>
#include <stdio.h>

static void print(const drnn_prediction *found, char **elements)
{
    size_t i;
    printf("%s", elements[found->position]);
    if (found->label != NULL)
        printf("\t%s\t%.17g", found->label, found->probability);
    for (i = 0; i < found->values_len; i++)
        printf("\t%.17g", found->values[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    drnn_model *model = NULL;
    drnn_task_stream *stream = NULL;
    const drnn_prediction *found = NULL;
    drnn_status status;
    int i;
    if (argc < 2) {
        fprintf(stderr, "usage: tag MODEL ELEMENT ..\n");
        return 2;
    }
    status = drnn_model_load(argv[1], 1, &model);
    if (status == DRNN_OK)
        status = drnn_task_stream_new(model, &stream);
    for (i = 2; status == DRNN_OK && i < argc; i++) {
        status = drnn_task_stream_push(stream, argv[i], &found);
        if (found != NULL)
            print(found, argv + 2);
    }
    while (status == DRNN_OK) {
        status = drnn_task_stream_finish(stream, &found);
        if (found == NULL)
            break;
        print(found, argv + 2);
    }
    if (status != DRNN_OK)
        fprintf(stderr, "tag: %s\n", drnn_last_error());
    drnn_task_stream_free(stream);
    drnn_model_free(model);
    return status == DRNN_OK ? 0 : 1;
}
