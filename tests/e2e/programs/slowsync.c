/* Preloaded, it makes a slow disk: fsync and fdatasync first sleep for as many milliseconds as the
 * file $SLOWSYNC_FILE says; no file, no wait. It is read again and again: less ends what is asleep.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NAP_MS 10

static long wait_ms(void)
{
    const char *path = getenv("SLOWSYNC_FILE");
    char text[24] = "";
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        if (read(fd, text, sizeof(text) - 1) < 0) {
            text[0] = '\0';
        }
        close(fd);
    }
    return strtol(text, NULL, 10);
}

static void dawdle(void)
{
    const struct timespec nap = {.tv_nsec = NAP_MS * 1000000};

    for (long ms = 0; ms < wait_ms(); ms += NAP_MS) {
        nanosleep(&nap, NULL);
    }
}

static int real_sync(const char *name, int fd)
{
    /* ISO C has no way to turn what dlsym gives into a function; POSIX has this one. */
    int (*sync_fn)(int) = NULL;

    *(void **)&sync_fn = dlsym(RTLD_NEXT, name);
    return sync_fn(fd);
}

int fsync(int fd)
{
    dawdle();
    return real_sync("fsync", fd);
}

int fdatasync(int fd)
{
    dawdle();
    return real_sync("fdatasync", fd);
}
