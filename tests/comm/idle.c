/* Two workers, each in a network namespace that netns_test.py has made, with a link between them
 * that nobody sends on. Says "linked" and "lost" whenever that is so of the second one, until its
 * input ends.
 *
 * usage: comm_idle NETNS ADDRESS NETNS ADDRESS */
#include "comm/comm.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic int changed_fd;

static void on_linked(void *arg)
{
    (void)arg;
    (void)!write(changed_fd, "!", 1);
}

/* Its threads stay in the namespace that it was opened in. */
static struct comm *open_in(const char *netns, const char *address, uint32_t node)
{
    struct comm_config config = {.job = "idle",
                                 .run = 1,
                                 .self = wid_make(node, 0, 1),
                                 .host = node,
                                 .address = address,
                                 .on_linked = node == 2 ? on_linked : NULL};
    const int fd = open(netns, O_RDONLY | O_CLOEXEC);
    char error[COMM_ERROR_MAX];
    struct comm *c = NULL;

    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        perror(netns);
    } else if (comm_open(&config, &c, error) != MU_OK) {
        fprintf(stderr, "%s\n", error);
    }
    return c;
}

int main(int argc, char **argv)
{
    struct member first = {.worker = wid_make(1, 0, 1), .host = 1};
    const struct generation g = {
        .job = "idle", .run = 1, .number = 1, .members_n = 1, .members = &first};
    struct comm *comms[2] = {0};
    int fds[2];
    char byte;

    if (argc != 5 || pipe(fds) != 0) {
        return 2;
    }
    changed_fd = fds[1];
    for (int i = 0; i < 2; i++) {
        comms[i] = open_in(argv[1 + 2 * i], argv[2 + 2 * i], 1 + (uint32_t)i);
        if (comms[i] == NULL) {
            return 2;
        }
    }
    snprintf(first.addr, sizeof(first.addr), "%s", comm_address(comms[0]));
    if (comm_want(comms[1], &g) != MU_OK) {
        return 2;
    }
    for (;;) {
        struct pollfd polled[] = {{.fd = 0, .events = POLLIN}, {.fd = fds[0], .events = POLLIN}};

        if (poll(polled, 2, -1) < 0 || polled[0].revents != 0) {
            break;
        }
        if (read(fds[0], &byte, 1) == 1) {
            puts(comm_linked(comms[1]) == 1 ? "linked" : "lost");
            fflush(stdout);
        }
    }
    comm_close(comms[0]);
    comm_close(comms[1]);
    return 0;
}
