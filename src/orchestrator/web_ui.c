/* The page and what belongs to it. It shows nothing by itself: its script asks, with a session. */
#include "orchestrator/web_files.h"
#include "orchestrator/web_state.h"

#include <stdlib.h>
#include <string.h>

void web_ui(void *arg, struct http_request *q)
{
    const char *name = http_param(q, 0);
    char *copy;

    (void)arg;
    for (unsigned i = 0; i < web_files_n; i++) {
        const struct web_file *f = &web_files[i];

        if (strcmp(name, f->name) != 0) {
            continue;
        }
        copy = malloc(f->n);
        if (copy == NULL) {
            web_answer_no_memory(q);
            return;
        }
        memcpy(copy, f->bytes, f->n);
        http_set_header(q, "Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'");
        http_answer(q, 200, f->type, copy, f->n);
        return;
    }
    http_answer_error(q, 404, "the page is /ui/index.html", "there is no such file");
}
