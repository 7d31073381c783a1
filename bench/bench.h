/* What every benchmark prints: one JSON object on stdout, with a list of measurements.
 *
 *     {"bench": "core", "version": "0.1.0", "results": [
 *       {"name": "lease renewal", "value": 1234567, "unit": "events/s"},
 *       …
 *     ]}
 *
 * A script may say more of a measurement (its spread, its goal) and of the machine; see README.md.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "base/base.h"

/* bench_begin, any number of bench_result, bench_end. Names and units need no escaping: plain
 * ASCII without quotes or backslashes. */
void bench_begin(const char *bench);
void bench_result(const char *name, double value, const char *unit);
void bench_end(void);

/* Of n values, which it sorts. Sets *spread_out to how far the largest is from the smallest, in
 * percent of the median. */
double bench_median(double *values, size_t n, double *spread_out);

/* Seconds on the monotonic clock. */
double bench_now(void);

/* Keeps the compiler from dropping a computation whose result nobody reads. */
void bench_use(uint64_t value);

#endif
