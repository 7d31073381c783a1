#include "agent/node_name.h"

#include "core/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NUMBER_MAX 10000
#define HOST_NAME_CAP 256

void node_name_make(const char *host, uint32_t number, char name[NAME_MAX_LEN])
{
    char stem[NAME_MAX_LEN - 8]; /* Leaves room for "-10000". */
    size_t n = 0;

    for (const char *s = host; *s != '\0' && *s != '.' && n + 1 < sizeof(stem); s++) {
        stem[n++] = isascii((unsigned char)*s) && text_is_name(s, 1) ? *s : '-';
    }
    stem[n] = '\0';
    if (n == 0) {
        strcpy(stem, "node");
    }
    if (number < 2) {
        snprintf(name, NAME_MAX_LEN, "%s", stem);
    } else {
        snprintf(name, NAME_MAX_LEN, "%s-%u", stem, number);
    }
}

/* An abstract socket: no file to be left behind. FNV-1a, as the path has room for little. */
static int hold(const char *scope, const char *name)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    uint64_t hash = 14695981039346656037u;
    char text[NAME_MAX_LEN * 3 + 32];
    int fd, n;

    snprintf(text, sizeof(text), "%u/%s/%s", (unsigned)getuid(), scope, name);
    for (const char *s = text; *s != '\0'; s++) {
        hash = (hash ^ (unsigned char)*s) * 1099511628211u;
    }
    n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "muster-node-%016llx",
                 (unsigned long long)hash);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (bind(fd, (struct sockaddr *)&sa,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void node_name_next(struct node_name *nn)
{
    char host[HOST_NAME_CAP] = "";
    uint32_t first = nn->number + 1;

    gethostname(host, sizeof(host) - 1);
    node_name_close(nn);
    for (nn->number = first; nn->number < NUMBER_MAX; nn->number++) {
        node_name_make(host, nn->number, nn->name);
        nn->fd = hold(nn->scope, nn->name);
        if (nn->fd >= 0) {
            return;
        }
    }
    nn->number = first;
    node_name_make(host, first, nn->name);
}

void node_name_open(struct node_name *nn, const char *scope)
{
    memset(nn, 0, sizeof(*nn));
    nn->fd = -1;
    snprintf(nn->scope, sizeof(nn->scope), "%s", scope);
    node_name_next(nn);
}

void node_name_close(struct node_name *nn)
{
    if (nn->fd >= 0) {
        close(nn->fd);
        nn->fd = -1;
    }
}
