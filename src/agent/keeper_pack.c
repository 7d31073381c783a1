/* The command of a worker, packed: a head, then strings one after the other, each with its
 * terminator: the directory if there is one, the arguments, the environment. */
#include "agent/keeper_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct head {
    uint32_t has_dir;
    uint32_t argv_n;
    uint32_t env_n;
};

static size_t list_size(char *const *list, uint32_t *n_out)
{
    size_t size = 0;
    uint32_t n = 0;

    for (; list[n] != NULL; n++) {
        size += strlen(list[n]) + 1;
    }
    *n_out = n;
    return size;
}

static char *put_list(char *at, char *const *list)
{
    for (; *list != NULL; list++) {
        at = stpcpy(at, *list) + 1;
    }
    return at;
}

int keeper_pack(char *const *argv, char *const *env, const char *dir, int *fd_out)
{
    struct head head = {.has_dir = dir != NULL};
    size_t size = sizeof(head) + (dir != NULL ? strlen(dir) + 1 : 0);
    char *at;
    void *map;
    int fd;

    size += list_size(argv, &head.argv_n);
    size += list_size(env, &head.env_n);
    fd = memfd_create("muster-command", MFD_CLOEXEC);
    if (fd < 0) {
        return errno == EMFILE || errno == ENFILE ? MU_ELIMIT : MU_ENOMEM;
    }
    if (ftruncate(fd, (off_t)size) != 0) {
        goto err_fd;
    }
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        goto err_fd;
    }
    memcpy(map, &head, sizeof(head));
    at = (char *)map + sizeof(head);
    if (dir != NULL) {
        at = stpcpy(at, dir) + 1;
    }
    at = put_list(put_list(at, argv), env);
    mu_assert(at == (char *)map + size);
    munmap(map, size);
    *fd_out = fd;
    return MU_OK;
err_fd:
    close(fd);
    return MU_ENOMEM;
}

/* Points n entries at the strings from `at` on; NULL if they go beyond `end`. */
static char *get_list(char *at, const char *end, uint32_t n, char **list)
{
    for (uint32_t i = 0; i < n; i++) {
        char *stop = memchr(at, '\0', (size_t)(end - at));

        if (stop == NULL) {
            return NULL;
        }
        list[i] = at;
        at = stop + 1;
    }
    list[n] = NULL;
    return at;
}

bool keeper_unpack(int fd, struct keeper_command *c_out)
{
    struct keeper_command c = {0};
    char *dir[2] = {NULL}, *at, *end;
    struct head head;
    struct stat st;

    if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(head)) {
        return false;
    }
    at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
        return false;
    }
    memcpy(&head, at, sizeof(head));
    end = at + st.st_size;
    at += sizeof(head);
    if (head.has_dir > 1 || head.argv_n == 0 || head.argv_n > (size_t)st.st_size ||
        head.env_n > (size_t)st.st_size) {
        return false;
    }
    c.argv = calloc((size_t)head.argv_n + 1, sizeof(*c.argv));
    c.env = calloc((size_t)head.env_n + 1, sizeof(*c.env));
    if (c.argv == NULL || c.env == NULL || (at = get_list(at, end, head.has_dir, dir)) == NULL ||
        (at = get_list(at, end, head.argv_n, c.argv)) == NULL ||
        get_list(at, end, head.env_n, c.env) == NULL) {
        free(c.argv);
        free(c.env);
        return false;
    }
    c.dir = dir[0];
    *c_out = c;
    return true;
}
