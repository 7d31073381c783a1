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

void node_note_say(struct node *n, uint32_t slot)
{
    struct node_note *note = &n->slots[slot].note;

    if (note->due_ms != NODE_NEVER) {
        note->due_ms = NODE_NEVER;
        log_write(note->level, NODE_AREA, "%s", note->text);
    }
}

void node_note_exit(struct node *n, uint32_t slot, uint32_t code, const char *why)
{
    struct node_note *note = &n->slots[slot].note;

    node_note_say(n, slot);
    note->level = describe(n, slot, code, why, note->text, sizeof(note->text));
    note->start = output_starts(n->output, slot);
    note->due_ms = net_now_ms() + OUTPUT_MS;
    node_notes_look(n);
}

void node_notes_look(struct node *n)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        if (n->slots[i].note.due_ms != NODE_NEVER &&
            output_start_is_done(n->output, i, n->slots[i].note.start)) {
            node_note_say(n, i);
        }
    }
}

uint64_t node_notes_deadline(const struct node *n)
{
    uint64_t at_ms = NODE_NEVER;

    for (uint32_t i = 0; i < n->config->slots; i++) {
        at_ms = MIN(at_ms, n->slots[i].note.due_ms);
    }
    return at_ms;
}

void node_notes_tick(struct node *n, uint64_t now_ms)
{
    for (uint32_t i = 0; i < n->config->slots; i++) {
        if (n->slots[i].note.due_ms <= now_ms) {
            node_note_say(n, i);
        }
    }
}
