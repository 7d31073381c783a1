/* The word about a process that has ended: it comes after what the process wrote. */
#include "agent/node_state.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

#define OUTPUT_MS                                                                  \
    1000 /* a console that is slow, or a stray that holds the pipe, delays no more \
          */

static enum log_level describe(const struct node *n, uint32_t slot, uint32_t code, const char *why,
                               char *text, size_t cap)
{
    const struct node_slot *s = &n->slots[slot];
    struct node_who w = node_slot_who(n, slot);

    if (why[0] != '\0') {
        snprintf(text, cap, "%s (slot %u): %s", w.text, slot, why);
        return LOG_ERROR;
    }
    if (code == 0) {
        snprintf(text, cap, "%s (slot %u), pid %d: done, exit code 0", w.text, slot, s->pid);
        return LOG_INFO;
    }
    if (s->stopping) {
        snprintf(text, cap, "%s (slot %u), pid %d: stopped", w.text, slot, s->pid);
        return LOG_INFO;
    }
    if (code > 128) {
        snprintf(text, cap, "%s (slot %u), pid %d: killed by signal %u (%s)", w.text, slot, s->pid,
                 code - 128, strsignal((int)code - 128));
    } else {
        snprintf(text, cap, "%s (slot %u), pid %d: failed, exit code %u", w.text, slot, s->pid,
                 code);
    }
    return LOG_WARN;
}

static void say(struct node *n, struct node_note *note)
{
    node_off(n, &note->timer);
    log_write(note->level, NODE_AREA, "%s", note->text);
}

static void on_late(void *data, struct timer *t)
{
    say(data, CONTAINER_OF(t, struct node_note, timer));
}

void node_note_say(struct node *n, uint32_t slot)
{
    if (timer_is_on(&n->slots[slot].note.timer)) {
        say(n, &n->slots[slot].note);
    }
}

void node_note_exit(struct node *n, uint32_t slot, uint32_t code, const char *why)
{
    struct node_note *note = &n->slots[slot].note;

    node_note_say(n, slot);
    note->level = describe(n, slot, code, why, note->text, sizeof(note->text));
    note->start = output_starts(n->output, slot);
    node_after(n, &note->timer, OUTPUT_MS, on_late);
    node_notes_look(n, false);
}

void node_notes_look(struct node *n, bool all)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        struct node_note *note = &n->slots[i].note;

        if (timer_is_on(&note->timer) && (all || output_start_is_done(n->output, i, note->start))) {
            say(n, note);
        }
    }
}
