/* Which files a source names: itself, those below a folder, those that a pattern fits. */
#include "data/reader.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX 16

static int add(struct found_list *list, const struct data_options *o, const char *path)
{
    char *copy;

    if (list->n >= DATA_FILES_MAX) {
        return error_say(MU_ELIMIT, "more than %u files", DATA_FILES_MAX);
    }
    if (list->n == list->cap) {
        const size_t cap = list->cap == 0 ? 16 : list->cap * 2;
        struct found *files = reallocarray(list->files, cap, sizeof(*files));

        if (files == NULL) {
            return error_say(MU_ENOMEM, "no memory for a list of files");
        }
        list->files = files;
        list->cap = cap;
    }
    copy = strdup(path);
    if (copy == NULL) {
        return error_say(MU_ENOMEM, "no memory for a list of files");
    }
    list->files[list->n++] = (struct found){copy, o};
    return MU_OK;
}

static int is_seen(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int add_path(struct found_list *list, const struct data_options *o, const char *path,
                    int depth);

static int add_folder(struct found_list *list, const struct data_options *o, const char *path,
                      int depth)
{
    struct dirent **names;
    int n = scandir(path, &names, is_seen, alphasort), rc = MU_OK;

    if (n < 0) {
        return error_say(errno == ENOMEM ? MU_ENOMEM : MU_EIO, "can't read the folder %s: %s", path,
                         strerror(errno));
    }
    for (int i = 0; i < n; i++) {
        char *below = NULL;

        if (rc == MU_OK &&
            asprintf(&below, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
                     names[i]->d_name) < 0) {
            below = NULL;
            rc = error_say(MU_ENOMEM, "no memory for a list of files");
        }
        rc = rc == MU_OK ? add_path(list, o, below, depth + 1) : rc;
        free(below);
        free(names[i]);
    }
    free(names);
    return rc;
}

/* A folder of MDS is read by its index: its shards are no files of their own. */
static bool has_index(const char *path, const struct data_options *o, char **index_out)
{
    struct source source;
    struct guess g = {.size = 0};
    bool is = false;

    if ((o->format != NULL && o->format != &format_mds) ||
        asprintf(index_out, "%s/index.json", path) < 0) {
        return false;
    }
    if (source_open(&source, *index_out) == MU_OK) {
        g = (struct guess){.path = *index_out,
                           .head = source.map,
                           .head_n = (size_t)MIN(source.map_n, (uint64_t)65536)};
        is = source.map_n > 0 && format_mds.guess(&g);
        source_close(&source);
    }
    if (!is) {
        free(*index_out);
    }
    return is;
}

static int add_path(struct found_list *list, const struct data_options *o, const char *path,
                    int depth)
{
    struct stat st;
    char *index;
    int rc;

    if (stat(path, &st) != 0) {
        return error_say(errno == ENOENT ? MU_ENOENT : MU_EIO, "can't read %s: %s", path,
                         strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return add(list, o, path);
    }
    if (depth > DEPTH_MAX) {
        return error_say(MU_ELIMIT, "%s: more than %d folders in each other", path, DEPTH_MAX);
    }
    if (!has_index(path, o, &index)) {
        return add_folder(list, o, path, depth);
    }
    rc = add(list, o, index);
    free(index);
    return rc;
}

static int add_pattern(struct found_list *list, const struct data_options *o, const char *pattern)
{
    glob_t g;
    int rc = MU_OK, code = glob(pattern, 0, NULL, &g);

    if (code == GLOB_NOSPACE) {
        return error_say(MU_ENOMEM, "no memory for a list of files");
    }
    if (code != 0) {
        return error_say(MU_ENOENT, "no file fits %s", pattern);
    }
    for (size_t i = 0; i < g.gl_pathc && rc == MU_OK; i++) {
        rc = add_path(list, o, g.gl_pathv[i], 0);
    }
    globfree(&g);
    return rc;
}

/* "FORMAT:PATH?options"; without a format all of it is the path. */
static int add_source(struct found_list *list, struct data_options *o, const char *source)
{
    const char *colon = strchr(source, ':'), *query = NULL;
    char format[16], *path;
    struct stat st;
    int rc = MU_OK;

    if (colon != NULL && (size_t)(colon - source) < sizeof(format)) {
        memcpy(format, source, (size_t)(colon - source));
        format[colon - source] = '\0';
        if (format_find(format) != NULL) {
            o->format = format_find(format);
            source = colon + 1;
            query = strrchr(source, '?');
            query = query != NULL && strchr(query, '=') != NULL ? query : NULL;
        }
    }
    path = strndup(source, query != NULL ? (size_t)(query - source) : strlen(source));
    if (path == NULL) {
        return error_say(MU_ENOMEM, "no memory for a list of files");
    }
    rc = query != NULL ? data_options_read(o, query + 1) : MU_OK;
    if (rc == MU_OK && *path == '\0') {
        rc = error_say(MU_EINVAL, "the name of a file is empty");
    } else if (rc == MU_OK && stat(path, &st) != 0 && strpbrk(path, "*?[") != NULL) {
        rc = add_pattern(list, o, path);
    } else if (rc == MU_OK) {
        rc = add_path(list, o, path, 0);
    }
    free(path);
    return rc;
}

int find_files(const char *const *sources, size_t n, const char *options, struct found_list *out)
{
    struct data_options common;
    int rc;

    *out = (struct found_list){.options = calloc(n + 1, sizeof(*out->options))};
    data_options_init(&common);
    rc = out->options == NULL ? error_say(MU_ENOMEM, "no memory for a list of files")
         : options != NULL    ? data_options_read(&common, options)
                              : MU_OK;
    for (size_t i = 0; i < n && rc == MU_OK; i++) {
        struct data_options *o = malloc(sizeof(*o));

        if (o == NULL) {
            rc = error_say(MU_ENOMEM, "no memory for a list of files");
            break;
        }
        out->options[out->options_n++] = o;
        rc = data_options_copy(o, &common);
        rc = rc == MU_OK ? add_source(out, o, sources[i]) : rc;
    }
    data_options_free(&common);
    if (rc != MU_OK) {
        find_free(out);
    }
    return rc;
}

void find_free(struct found_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->files[i].path);
    }
    for (size_t i = 0; i < list->options_n; i++) {
        data_options_free(list->options[i]);
        free(list->options[i]);
    }
    free(list->files);
    free(list->options);
    *list = (struct found_list){.n = 0};
}
