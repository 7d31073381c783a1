/* The calls by their names: mu_make() with most of it left out. */
#include "run/run.h"

/* view_out NULL: the result comes to `out`. */
static int make(mu_run *run, enum mu_kind kind, const void *in, void *out, size_t count,
                enum mu_dtype dtype, enum mu_reduction reduction, int rank, uint32_t tag,
                int64_t timeout_ms, const void **view_out)
{
    mu_call call;
    mu_result result;
    int rc;

    mu_call_init(&call, kind);
    call.in = in;
    call.out = out;
    call.count = count;
    call.dtype = dtype;
    call.reduction = reduction;
    call.rank = rank;
    call.tag = tag;
    call.timeout_ms = timeout_ms;
    call.flags = view_out != NULL ? MU_VIEW : 0;
    rc = mu_make(run, &call, &result);
    if (rc == MU_OK && view_out != NULL) {
        *view_out = result.view;
    }
    return rc;
}

int mu_allreduce(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
                 enum mu_reduction reduction, int64_t timeout_ms)
{
    return make(run, MU_ALLREDUCE, in, out, count, dtype, reduction, 0, 0, timeout_ms, NULL);
}

int mu_reduce_scatter(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
                      enum mu_reduction reduction, int64_t timeout_ms)
{
    return make(run, MU_REDUCE_SCATTER, in, out, count, dtype, reduction, 0, 0, timeout_ms, NULL);
}

int mu_allgather(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
                 int64_t timeout_ms)
{
    return make(run, MU_ALLGATHER, in, out, count, dtype, MU_SUM, 0, 0, timeout_ms, NULL);
}

int mu_broadcast(mu_run *run, void *buffer, size_t count, enum mu_dtype dtype, int root,
                 int64_t timeout_ms)
{
    return make(run, MU_BROADCAST, buffer, buffer, count, dtype, MU_SUM, root, 0, timeout_ms, NULL);
}

int mu_reduce(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
              enum mu_reduction reduction, int root, int64_t timeout_ms)
{
    return make(run, MU_REDUCE, in, out, count, dtype, reduction, root, 0, timeout_ms, NULL);
}

int mu_meet(mu_run *run, int64_t timeout_ms)
{
    return make(run, MU_MEET, NULL, NULL, 0, MU_U8, MU_SUM, 0, 0, timeout_ms, NULL);
}

int mu_send(mu_run *run, const void *in, size_t count, enum mu_dtype dtype, int to, uint32_t tag,
            int64_t timeout_ms)
{
    return make(run, MU_SEND, in, NULL, count, dtype, MU_SUM, to, tag, timeout_ms, NULL);
}

int mu_recv(mu_run *run, void *out, size_t count, enum mu_dtype dtype, int from, uint32_t tag,
            int64_t timeout_ms)
{
    return make(run, MU_RECV, NULL, out, count, dtype, MU_SUM, from, tag, timeout_ms, NULL);
}

int mu_allreduce_view(mu_run *run, const void *in, size_t count, enum mu_dtype dtype,
                      enum mu_reduction reduction, int64_t timeout_ms, const void **view_out)
{
    return make(run, MU_ALLREDUCE, in, NULL, count, dtype, reduction, 0, 0, timeout_ms, view_out);
}
