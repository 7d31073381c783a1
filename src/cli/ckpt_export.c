/* `muster ckpt export`: a checkpoint for other tools, as a .npz file or as raw files. */
#include "cli/ckpt_cmd.h"
#include "cli/ckpt_text.h"
#include "core/text.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *e = NULL;

    if (dir == NULL) {
        return false;
    }
    do {
        e = readdir(dir);
    } while (e != NULL && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0));
    closedir(dir);
    return e == NULL;
}

/* ckpt_export() writes to PATH.part, and takes one that is there for its own. */
static int check_part(const struct ckpt_call *c)
{
    size_t n = strlen(c->to);
    char part[CKPT_PATH_MAX];
    struct stat st;

    while (n > 1 && c->to[n - 1] == '/') {
        n--;
    }
    if (c->force ||
        (size_t)snprintf(part, sizeof(part), "%.*s.part", (int)n, c->to) >= sizeof(part) ||
        lstat(part, &st) != 0) {
        return EXIT_SUCCESS;
    }
    return ckpt_cmd_say(EXIT_FAILURE,
                        "%s is there, perhaps of an export that was interrupted; remove it first",
                        part);
}

/* Known before anything is read. A file that is there is replaced if that was said, a folder with
 * something in it never. */
static int check_place(const struct ckpt_call *c)
{
    struct stat st;

    if (lstat(c->to, &st) != 0) {
        return EXIT_SUCCESS; /* What else may be wrong is told when it is made. */
    }
    if (c->raw) {
        return S_ISDIR(st.st_mode) && is_empty(c->to)
                   ? EXIT_SUCCESS
                   : ckpt_cmd_say(EXIT_FAILURE, "%s is there already; name a new folder", c->to);
    }
    if (S_ISDIR(st.st_mode)) {
        return ckpt_cmd_say(EXIT_FAILURE, "%s is a folder; name a file", c->to);
    }
    return c->force ? EXIT_SUCCESS
                    : ckpt_cmd_say(EXIT_FAILURE, "%s is there already; --force replaces it", c->to);
}

static int export(const struct ckpt_call *c, const struct ckpt_found *f, uint32_t at)
{
    struct ckpt_why why = {.text = ""};
    char size[TEXT_BYTES_MAX];
    const struct ckpt_manifest *m;
    struct ckpt *open;
    int rc, status = ckpt_cmd_open(c, f, at, &open);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    rc = ckpt_export(open, c->to, c->raw, c->f32, &why);
    if (rc == MU_OK) {
        m = ckpt_manifest(open);
        text_bytes(m->bytes, size);
        printf("step %" PRIu64 " of job %s is in %s: %" PRIu32 " part%s, %s\n", f->entries[at].step,
               c->job, c->to, m->parts_n, m->parts_n == 1 ? "" : "s", size);
    } else {
        status = ckpt_cmd_failed(c, f, at, rc, &why);
    }
    ckpt_close(open);
    return status;
}

int ckpt_cmd_export(const struct ckpt_call *c)
{
    struct ckpt_found f;
    uint32_t at;
    int status = ckpt_cmd_find(c, &f);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    status = ckpt_cmd_choose(c, &f, &at);
    if (status == EXIT_SUCCESS) {
        status = check_place(c);
    }
    if (status == EXIT_SUCCESS) {
        status = check_part(c);
    }
    if (status == EXIT_SUCCESS) {
        status = export(c, &f, at);
    }
    free(f.entries);
    return status;
}
