#include "core/tasks_metric.h"

#include "core/text.h"

#include <inttypes.h>
#include <string.h>

enum { NOT_A_NUMBER = 1, PLUS = 2, MINUS = 4 };

#define MEAN_WORDS (EXACT_WORDS + 2) /* the sum, its flags, the count */

_Static_assert(MEAN_WORDS <= TASKS_METRIC_WORDS &&
                   TASKS_COUNTS_MAX + TASKS_METRICS_MAX * TASKS_METRIC_WORDS <=
                       TASKS_VALUES_MAX / 8,
               "metrics fit into a record as they are kept");

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double of_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static void add_at(uint64_t *words, uint32_t i, uint64_t v)
{
    for (; v != 0 && i < EXACT_WORDS; i++) {
        words[i] += v;
        v = words[i] < v;
    }
}

static void take_at(uint64_t *words, uint32_t i, uint64_t v)
{
    for (; v != 0 && i < EXACT_WORDS; i++) {
        uint64_t was = words[i];

        words[i] -= v;
        v = was < v;
    }
}

void exact_add(struct exact *sum, double x)
{
    uint64_t bits = bits_of(x), part = bits & ((UINT64_C(1) << 52) - 1);
    uint32_t e = (uint32_t)(bits >> 52) & 0x7ff;
    bool negative = bits >> 63;

    if (e == 0x7ff) {
        sum->flags |= part != 0 ? NOT_A_NUMBER : negative ? MINUS : PLUS;
        return;
    }
    part |= e != 0 ? UINT64_C(1) << 52 : 0;
    e -= e != 0; /* now x = part * 2^e units */
    uint64_t low = part << e % 64, high = e % 64 == 0 ? 0 : part >> (64 - e % 64);
    (negative ? take_at : add_at)(sum->words, e / 64, low);
    (negative ? take_at : add_at)(sum->words, e / 64 + 1, high);
}

/* 64 bits from bit `at` on. */
static uint64_t window(const uint64_t *words, uint32_t at)
{
    uint64_t w = words[at / 64] >> at % 64;

    return at % 64 == 0 || at / 64 + 1 == EXACT_WORDS ? w
                                                      : w | words[at / 64 + 1] << (64 - at % 64);
}

static bool any_below(const uint64_t *words, uint32_t at)
{
    for (uint32_t i = 0; i < at / 64; i++) {
        if (words[i] != 0) {
            return true;
        }
    }
    return at % 64 != 0 && words[at / 64] << (64 - at % 64) != 0;
}

double exact_get(const struct exact *sum)
{
    uint64_t words[EXACT_WORDS];
    bool negative = sum->words[EXACT_WORDS - 1] >> 63;
    uint32_t top = EXACT_WORDS * 64;

    if (sum->flags != 0) {
        return of_bits(sum->flags == PLUS    ? UINT64_C(0x7ff) << 52
                       : sum->flags == MINUS ? UINT64_C(0xfff) << 52
                                             : UINT64_C(0x7ff8) << 48);
    }
    memcpy(words, sum->words, sizeof(words));
    if (negative) {
        memset(words, 0, sizeof(words));
        for (uint32_t i = 0; i < EXACT_WORDS; i++) {
            take_at(words, i, sum->words[i]);
        }
    }
    while (top > 0 && (words[(top - 1) / 64] >> (top - 1) % 64 & 1) == 0) {
        top--;
    }
    uint64_t sign = (uint64_t)negative << 63;
    if (top <= 53) {
        return of_bits(sign | words[0]); /* the smallest normal ones go on where these end */
    }
    uint32_t at = top - 53;
    uint64_t part = window(words, at) & ((UINT64_C(1) << 53) - 1);
    bool half = window(words, at - 1) & 1;
    part += half && ((part & 1) != 0 || any_below(words, at - 1));
    /* A carry beyond 53 bits is the next exponent, with zeros. */
    uint64_t bits = ((uint64_t)at << 52) + part;
    return of_bits(sign | MIN(bits, UINT64_C(0x7ff) << 52));
}

double metric_auc(const uint64_t *positives, const uint64_t *negatives, uint32_t n)
{
    double area = 0, above = 0, all = 0;

    for (uint32_t i = n; i-- > 0;) { /* A pair that one threshold does not part counts half. */
        area += (double)negatives[i] * (above + (double)positives[i] / 2);
        above += (double)positives[i];
        all += (double)negatives[i];
    }
    return area / (above * all);
}

uint32_t metric_bin(double score, uint32_t n)
{
    return !(score > 0) ? 0 : score >= 1 ? n - 1 : MIN((uint32_t)(score * n), n - 1);
}

/* Words of a metric in a report, and as it is kept. */
static uint32_t said_words(const struct task_metric *m)
{
    return m->n;
}

static uint32_t kept_words(const struct task_metric *m)
{
    return m->type == TASKS_METRIC_MEAN ? MEAN_WORDS : m->n;
}

static uint32_t find(const struct metrics *m, const char *name)
{
    uint32_t i = 0;

    while (i < m->n && strcmp(m->of[i].name, name) != 0) {
        i++;
    }
    return i;
}

static bool shape_valid(const struct task_metric *m)
{
    return m->name[0] != '\0' &&
           (m->type == TASKS_METRIC_MEAN ? m->n == 2
                                         : m->type == TASKS_METRIC_AUC && m->n >= 2 &&
                                               m->n % 2 == 0 && m->n <= TASKS_COUNTS_MAX);
}

bool sums_fit(const struct metrics *m, const struct task_metric *of, uint32_t n, uint32_t values_n,
              bool *fresh_out, char *why, size_t cap)
{
    uint32_t said = 0, kept = m->words_n, all = m->n;

    *fresh_out = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = find(m, of[i].name);

        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(of[i].name, of[k].name) == 0) {
                text_say(why, cap, "the metric %s is there twice", of[i].name);
                return false;
            }
        }
        if (!shape_valid(&of[i])) {
            text_say(why, cap,
                     "the metric '%s' has %" PRIu32 " values: a mean has a sum and a count, an AUC "
                     "as many positives as negatives, up to %d in all",
                     of[i].name, of[i].n, TASKS_COUNTS_MAX);
            return false;
        }
        if (at < m->n && (m->of[at].type != of[i].type || m->of[at].n != of[i].n)) {
            text_say(why, cap,
                     "the metric %s was reported with another type or number of values before: all "
                     "workers must use the same",
                     of[i].name);
            return false;
        }
        said += said_words(&of[i]);
        if (at == m->n) {
            *fresh_out = true;
            all++;
            kept += kept_words(&of[i]);
        }
    }
    if (all > TASKS_METRICS_MAX || kept > TASKS_VALUES_MAX / 8) {
        text_say(why, cap, "there may be %d metrics, of %d counts in all", TASKS_METRICS_MAX,
                 TASKS_COUNTS_MAX);
        return false;
    }
    if (said != values_n / 8 || values_n % 8 != 0) {
        text_say(why, cap,
                 "the metrics have %" PRIu32 " values, but %" PRIu32 " bytes of them came", said,
                 values_n);
        return false;
    }
    return true;
}

void sums_add(struct metrics *m, const struct task_metric *of, uint32_t n, const uint8_t *values)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = find(m, of[i].name);

        if (at == m->n) {
            m->of[at] = of[i];
            m->at[at] = m->words_n;
            memset(&m->words[m->words_n], 0, kept_words(&of[i]) * sizeof(m->words[0]));
            m->words_n += kept_words(&of[i]);
            m->n++;
        }
        uint64_t *to = &m->words[m->at[at]];
        if (of[i].type == TASKS_METRIC_MEAN) {
            struct exact sum;

            memcpy(&sum, to, sizeof(sum));
            exact_add(&sum, of_bits(word_get(values)));
            memcpy(to, &sum, sizeof(sum));
            to[MEAN_WORDS - 1] += word_get(values + 8);
        } else {
            for (uint32_t k = 0; k < of[i].n; k++) {
                to[k] += word_get(values + (size_t)8 * k);
            }
        }
        values += (size_t)8 * said_words(&of[i]);
    }
}

double sums_value(const struct metrics *m, uint32_t i)
{
    const uint64_t *from = &m->words[m->at[i]];
    struct exact sum;

    if (m->of[i].type == TASKS_METRIC_AUC) {
        return metric_auc(from, from + m->of[i].n / 2, m->of[i].n / 2);
    }
    memcpy(&sum, from, sizeof(sum));
    return exact_get(&sum) / (double)from[MEAN_WORDS - 1];
}

bool sums_load(struct metrics *m, const struct task_metric *of, uint32_t n, const uint8_t *values,
               uint32_t values_n)
{
    uint32_t words_n = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!shape_valid(&of[i]) || i == TASKS_METRICS_MAX) {
            return false;
        }
        words_n += kept_words(&of[i]);
    }
    if (words_n * 8 != values_n || words_n > TASKS_VALUES_MAX / 8) {
        return false;
    }
    m->n = n;
    m->words_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        m->of[i] = of[i];
        m->at[i] = m->words_n;
        m->words_n += kept_words(&of[i]);
    }
    for (uint32_t i = 0; i < words_n; i++) {
        m->words[i] = word_get(values + (size_t)8 * i);
    }
    return true;
}
