/* `muster data`: files of records. It asks nobody: no orchestrator is needed. */
#include "cli/data_cmd.h"
#include "cli/suggest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) .at = offsetof(struct data_call, field)

/* "M:N", ":N", "M:" or "M": record M alone. */
static int read_range(const char *text, void *to, char *error)
{
    struct data_range *r = to, got = {0, UINT64_MAX};
    char *end;

    errno = 0;
    if (*text >= '0' && *text <= '9') {
        got.first = strtoull(text, &end, 10);
        text = end;
        got.end = *text == '\0' ? got.first + 1 : UINT64_MAX;
    }
    if (*text == ':' && text[1] >= '0' && text[1] <= '9') {
        got.end = strtoull(text + 1, &end, 10);
        text = end;
    } else if (*text == ':') {
        text++;
    }
    if (*text != '\0' || errno != 0 || got.end < got.first || (got.first == 0 && got.end == 0)) {
        return MU_EINVAL;
    }
    *r = got;
    return MU_OK;
}

static const struct opt table[] = {
    {OPT_STRING, .name = "read", .value = "OPTIONS", AT(options),
     .help = "how the files are read: \"format=csv&header=no\""},
    {OPT_FLAG, .name = "skip", AT(skip), .help = "ls, cat, pack: leave out what is damaged"},
    {OPT_READ, .name = "records", .value = "M:N", AT(records), .read = read_range,
     .wants = "M:N, M:, :N or M", .help = "cat, pack: only records M to N-1, counted from 0"},
    {OPT_CHOICE, .name = "format", AT(format), .choices = "lines|raw|base64|json",
     .help =
         "cat: each with a line end, as it is, one in base64 a line, one JSON object a line; pack: "
         "raw, or json: a record's columns as an object"},
    {OPT_STRING, .letter = 'o', .name = "out", .value = "FILE", AT(out),
     .help = "pack: the file to make"},
    {OPT_STRING, .name = "compressor", .value = "NAME", AT(compressor), .preset = "snappy",
     .help = "pack: none, snappy or gzip"},
    {OPT_STRING, .name = "chunk", .value = "BYTES", AT(chunk),
     .help = "pack: records go together in chunks of so many bytes; 256KiB"},
    {OPT_U32, .name = "split", .value = "RECORDS", AT(split), .min = 1,
     .help = "pack: several files of so many records, OUT-00000, OUT-00001, …"},
    {OPT_FLAG, .name = "zip", AT(zip),
     .help = "pack: a record is one of each SOURCE, side by side"},
    {OPT_FLAG, .name = "json", AT(json), .help = "ls, verify: one JSON object per line and file"},
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "data",
    .usage = "[OPTIONS] ls|cat|verify FILE…, or: pack SOURCE… -o OUT",
    .about = "Files of records: lists, prints and verifies them, and packs them into RecordIO. A "
             "FILE may be a "
             "folder (the files below it) or a pattern, with a format in front: csv:FILE. There "
             "are recordio, lines, "
             "csv, fixed, tfrecord, idx (MNIST's), tar (WebDataset), mds (MosaicML), sqlite, and "
             "file: all of a file "
             "is one record. Without one it is found out. Options may follow: "
             "\"sqlite:FILE?table=t&columns=a,b\".\n"
             "ls reads what files say of themselves. verify reads every byte; it exits with 0, or "
             "with 1 and a line "
             "with file and offset for each damage.",
    .examples = "  muster data ls /data/train\n"
                "  muster data cat train.recordio --records 10:20 --format json\n"
                "  muster data verify '/data/train/part-*'\n"
                "  muster data pack train.csv -o train.recordio\n"
                "  muster data pack --zip train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz -o "
                "mnist.recordio\n",
    .table = table,
    .words_min = 2,
    .words_max = UINT32_MAX,
};

static const struct verb {
    const char *name;
    int (*run)(const struct data_call *c);
} verbs[] = {
    {"ls", data_cmd_ls},
    {"cat", data_cmd_cat},
    {"verify", data_cmd_verify},
    {"pack", data_cmd_pack},
};

static const struct verb *find_verb(const char *name, struct suggestion *s)
{
    suggest_begin(s, name);
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            return &verbs[i];
        }
        suggest_offer(s, verbs[i].name);
    }
    return NULL;
}

static int check_options(const struct verb *v, const struct data_call *c)
{
    const struct {
        bool given;
        const char *flag, *verbs;
    } rules[] = {
        {c->out != NULL, "out", "pack"},
        {c->chunk != NULL, "chunk", "pack"},
        {c->split > 0, "split", "pack"},
        {c->zip, "zip", "pack"},
        {c->json, "json", "ls and verify"},
        {c->skip, "skip", "ls, cat and pack"},
        {c->records.first > 0 || c->records.end < UINT64_MAX, "records", "cat and pack"},
        {c->format != DATA_LINES, "format", "cat and pack"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (rules[i].given && strstr(rules[i].verbs, v->name) == NULL) {
            return opts_usage_error(&spec, "--%s is for %s", rules[i].flag, rules[i].verbs);
        }
    }
    if (v->run == data_cmd_pack && c->out == NULL) {
        return opts_usage_error(&spec, "pack needs -o: the file to make");
    }
    if (v->run == data_cmd_pack && c->format == DATA_BASE64) {
        return opts_usage_error(&spec, "pack knows the formats raw and json");
    }
    if (c->zip && c->format == DATA_JSON) {
        return opts_usage_error(&spec, "--zip and --format json exclude each other");
    }
    return EXIT_SUCCESS;
}

int data_main(int argc, char **argv)
{
    struct data_call c = {.records = {0, UINT64_MAX}};
    struct opts_words words;
    struct suggestion near;
    const struct verb *v;
    int status;

    if (!opts_parse(&spec, argc, argv, &c, &words, &status)) {
        return status;
    }
    v = find_verb(words.words[0], &near);
    if (v == NULL) {
        return opts_usage_error(&spec, "there is no 'data %.40s'%s%s%s", words.words[0],
                                near.best != NULL ? ". Did you mean '" : "",
                                near.best != NULL ? near.best : "", near.best != NULL ? "'?" : "");
    }
    c.files = words.words + 1;
    c.files_n = words.n - 1;
    status = check_options(v, &c);
    return status == EXIT_SUCCESS ? v->run(&c) : status;
}
