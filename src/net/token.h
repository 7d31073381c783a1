/* The one secret of an orchestrator, and the keys made from it. The secret never travels. */
#ifndef NET_TOKEN_H
#define NET_TOKEN_H

#include "net/net.h"

#define TOKEN_BYTES 32
#define TOKEN_TEXT_MAX 80 /* "mu1-" and 64 hex digits, and room */
#define PATH_MAX_LEN 1024

struct token {
    uint8_t secret[TOKEN_BYTES];
};

enum token_key { TOKEN_KEY_CONTROL, TOKEN_KEY_VIEWER, TOKEN_KEY_OPERATOR };

/* HKDF-SHA256, one label per use. */
void token_derive(const struct token *t, enum token_key use, uint8_t out[32]);

/* The key of one run of a job, in the same way: its workers know it, and no others. Whoever has it
 * can make none of the other keys from it, nor that of another run. */
void token_derive_run(const struct token *t, const char *job, uint32_t run, uint8_t out[32]);

/* The text form, as MUSTER_TOKEN and token files hold it. Blanks around it are fine. */
void token_print(const struct token *t, char text[TOKEN_TEXT_MAX]);
int token_parse(const char *text, struct token *t_out);

/* The file DIR/token, 0600, made with fresh random bytes if it is missing (`create`). Refuses one
 * that others can read. A file that can't be read or parsed is an error, never a reason to make
 * another. error: NET_ERROR_MAX. MU_ENOENT: there is none, and !create. */
int token_file(const char *path, bool create, struct token *t_out, char *error);

/* Where a client finds it: `file` if not NULL (then it must be there), or MUSTER_TOKEN, or the file
 * `token` in the data directory of this user. MU_ENOENT: nowhere; error says where it looked and
 * what to do. */
int token_find(const char *file, struct token *t_out, char *error);

/* The data directory: $XDG_STATE_HOME/muster, or ~/.local/state/muster. */
int data_dir_default(char path[PATH_MAX_LEN], char *error);

/* mkdir -p, 0700 for what is made. */
int data_dir_make(const char *path, char *error);

#endif
