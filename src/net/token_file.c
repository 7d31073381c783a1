/* Where the secret lies: files of 0600, the environment, the data directory. */
#include "net/token.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(char *error, const char *what, const char *path, int status)
{
    snprintf(error, NET_ERROR_MAX, "%s %.300s: %s", what, path, strerror(errno));
    return status;
}

static int check_file(int fd, const char *path, char *error)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return fail(error, "can't look at the token file", path, MU_EIO);
    }
    if (!S_ISREG(st.st_mode)) {
        snprintf(error, NET_ERROR_MAX, "the token file %s is not a regular file", path);
        return MU_EINVAL;
    }
    if ((st.st_mode & 077) != 0) {
        snprintf(error, NET_ERROR_MAX,
                 "the token file %s can be used by others than its owner (mode %03o): run "
                 "chmod 600 %s, and make another token if somebody may have read it",
                 path, (unsigned)(st.st_mode & 0777), path);
        return MU_EREFUSED;
    }
    return MU_OK;
}

static int read_all(int fd, char *buf, size_t cap, size_t *n_out)
{
    size_t n = 0;

    while (n < cap) {
        ssize_t got = read(fd, buf + n, cap - n);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return MU_EIO;
        }
        if (got == 0) {
            break;
        }
        n += (size_t)got;
    }
    *n_out = n;
    return MU_OK;
}

static int read_token(int fd, const char *path, struct token *t_out, char *error)
{
    char text[TOKEN_TEXT_MAX * 4];
    size_t n = 0;
    int rc = check_file(fd, path, error);

    if (rc != MU_OK) {
        return rc;
    }
    if (read_all(fd, text, sizeof(text) - 1, &n) != MU_OK) {
        return fail(error, "can't read the token file", path, MU_EIO);
    }
    text[n] = '\0';
    rc = strlen(text) == n ? token_parse(text, t_out) : MU_EINVAL;
    OPENSSL_cleanse(text, sizeof(text));
    if (rc != MU_OK) {
        snprintf(error, NET_ERROR_MAX,
                 "the token file %s holds no token (mu1- and 64 hex digits, as `muster token` "
                 "prints it): put the right one there, or remove the file if nobody uses it",
                 path);
    }
    return rc;
}

/* Written in full under another name first: whoever sees the file sees a whole token. */
static int write_temp(int fd, const char *temp, const struct token *t, char *error)
{
    char text[TOKEN_TEXT_MAX + 1];

    token_print(t, text);
    strcat(text, "\n");
    const size_t n = strlen(text);
    const bool done = fchmod(fd, 0600) == 0 && write(fd, text, n) == (ssize_t)n && fsync(fd) == 0;

    OPENSSL_cleanse(text, sizeof(text));
    return done ? MU_OK : fail(error, "can't write the token file", temp, MU_EIO);
}

static int sync_folder(const char *path, char *error)
{
    char folder[PATH_MAX_LEN];
    const char *slash = strrchr(path, '/');
    const size_t n = slash == NULL ? 0 : MAX((size_t)(slash - path), 1);

    snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)n,
             slash == NULL ? "." : path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) != 0) {
        int rc = fail(error, "can't sync the folder", folder, MU_EIO);

        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    close(fd);
    return MU_OK;
}

static int make_token(const char *path, char *error)
{
    char temp[PATH_MAX_LEN + 32];
    struct token fresh;
    uint64_t salt;
    int rc;

    random_bytes(&fresh, sizeof(fresh));
    random_bytes(&salt, sizeof(salt));
    snprintf(temp, sizeof(temp), "%s.%016llx", path, (unsigned long long)salt);
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0) {
        rc = fail(error, "can't make the token file", path, MU_EIO);
        goto out;
    }
    rc = write_temp(fd, temp, &fresh, error);
    close(fd);
    /* Somebody else who was first wins: link() replaces nothing. Where there are no hard links,
     * the kernel can rename without replacing. */
    if (rc == MU_OK && link(temp, path) != 0 && errno != EEXIST &&
        renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) != 0 && errno != EEXIST) {
        rc = fail(error, "can't make the token file", path, MU_EIO);
    }
    (void)unlink(temp);
    if (rc == MU_OK) {
        rc = sync_folder(path, error);
    }
out:
    OPENSSL_cleanse(&fresh, sizeof(fresh));
    return rc;
}

int token_file(const char *path, bool create, struct token *t_out, char *error)
{
    if (strlen(path) >= PATH_MAX_LEN) {
        snprintf(error, NET_ERROR_MAX, "the path of the token file is too long: %.100s…", path);
        return MU_EINVAL;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 && errno == ENOENT && create) {
        int rc = make_token(path, error);

        if (rc != MU_OK) {
            return rc;
        }
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    if (fd < 0) {
        return fail(error, "can't open the token file", path, errno == ENOENT ? MU_ENOENT : MU_EIO);
    }
    int rc = read_token(fd, path, t_out, error);

    close(fd);
    return rc;
}

int token_find(const char *file, struct token *t_out, char *error)
{
    const char *text = getenv("MUSTER_TOKEN");
    char dir[PATH_MAX_LEN], path[PATH_MAX_LEN + 8];

    if (file != NULL) {
        return token_file(file, false, t_out, error);
    }
    if (text != NULL && *text != '\0') {
        int rc = token_parse(text, t_out);

        if (rc != MU_OK) {
            snprintf(error, NET_ERROR_MAX,
                     "MUSTER_TOKEN is set, but it is no token (mu1- and 64 hex digits, as "
                     "`muster token` prints it)");
        }
        return rc;
    }
    int rc = data_dir_default(dir, error);

    if (rc != MU_OK) {
        return rc;
    }
    snprintf(path, sizeof(path), "%s/token", dir);
    rc = token_file(path, false, t_out, error);
    if (rc == MU_ENOENT) {
        snprintf(error, NET_ERROR_MAX,
                 "no token: MUSTER_TOKEN is not set and there is no file %.200s; run `muster "
                 "token` where the orchestrator runs, and set MUSTER_TOKEN or --token-file here",
                 path);
    }
    return rc;
}

static int home_of(char *buf, size_t cap, char *error)
{
    const char *home = getenv("HOME");
    struct passwd pw, *found = NULL;
    char mem[4096];

    if (home == NULL || home[0] != '/') {
        home = getpwuid_r(geteuid(), &pw, mem, sizeof(mem), &found) == 0 && found != NULL
                   ? found->pw_dir
                   : NULL;
    }
    if (home == NULL || strlen(home) >= cap) {
        snprintf(error, NET_ERROR_MAX,
                 "this user has no home folder: set HOME or XDG_STATE_HOME, or give --data");
        return MU_ENOENT;
    }
    strcpy(buf, home);
    return MU_OK;
}

int data_dir_default(char path[PATH_MAX_LEN], char *error)
{
    const char *state = getenv("XDG_STATE_HOME");
    char home[PATH_MAX_LEN - 64];

    if (state != NULL && state[0] == '/') {
        if (strlen(state) >= sizeof(home)) {
            snprintf(error, NET_ERROR_MAX, "XDG_STATE_HOME is too long: %.100s…", state);
            return MU_EINVAL;
        }
        snprintf(path, PATH_MAX_LEN, "%s/muster", state);
        return MU_OK;
    }
    int rc = home_of(home, sizeof(home), error);

    if (rc == MU_OK) {
        snprintf(path, PATH_MAX_LEN, "%s/.local/state/muster", home);
    }
    return rc;
}

int data_dir_make(const char *path, char *error)
{
    char part[PATH_MAX_LEN];
    const size_t n = strlen(path);
    struct stat st;

    if (n == 0 || n >= sizeof(part)) {
        snprintf(error, NET_ERROR_MAX, "the path of the data folder is %s",
                 n == 0 ? "empty" : "too long");
        return MU_EINVAL;
    }
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST) {
            return fail(error, "can't make the folder", part, MU_EIO);
        }
    }
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return fail(error, "can't use as a folder", path, MU_EIO);
    }
    return MU_OK;
}
