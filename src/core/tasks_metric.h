/* Metrics of an evaluation, added up over any number of reports: the sum of f64 values is exact
 * until it is read, so neither the order of the reports nor how they are cut changes a bit of it.
 */
#ifndef CORE_TASKS_METRIC_H
#define CORE_TASKS_METRIC_H

#include "core/message_tasks.h"

/* A sum as an integer of 2176 bits in two's complement, whose unit is the smallest f64; then a word
 * of flags: what was not finite. Zeros are the sum of nothing. */
#define EXACT_WORDS 34
struct exact {
    uint64_t words[EXACT_WORDS];
    uint64_t flags;
};

void exact_add(struct exact *sum, double x);
double exact_get(const struct exact *sum); /* rounded once, to nearest even */

/* The area under the ROC curve from counts by threshold, rising: n of positives, n of negatives.
 * NaN if there are none of a kind. */
double metric_auc(const uint64_t *positives, const uint64_t *negatives, uint32_t n);

/* Where a score counts: NaN as the lowest. */
uint32_t metric_bin(double score, uint32_t n);

/* All metrics of one evaluation. */
struct metrics {
    uint32_t n;
    struct task_metric of[TASKS_METRICS_MAX];
    uint32_t at[TASKS_METRICS_MAX]; /* its first word */
    uint32_t words_n;
    uint64_t words[TASKS_VALUES_MAX / 8];
};

/* Can they be added? A sentence in why if not. fresh_out: some were not there before. values_n:
 * bytes. */
bool sums_fit(const struct metrics *m, const struct task_metric *of, uint32_t n, uint32_t values_n,
              bool *fresh_out, char *why, size_t cap);
void sums_add(struct metrics *m, const struct task_metric *of, uint32_t n, const uint8_t *values);
double sums_value(const struct metrics *m, uint32_t i);

/* As they are kept, for a snapshot. false: they make no sense. */
bool sums_load(struct metrics *m, const struct task_metric *of, uint32_t n, const uint8_t *values,
               uint32_t values_n);

static inline uint64_t word_get(const uint8_t *p)
{
    uint64_t w = 0;

    for (int i = 7; i >= 0; i--) {
        w = w << 8 | p[i];
    }
    return w;
}

static inline void word_put(uint8_t *p, uint64_t w)
{
    for (int i = 0; i < 8; i++) {
        p[i] = (uint8_t)(w >> 8 * i);
    }
}

#endif
