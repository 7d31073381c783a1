/* The calls by their names: mu_make() with most of it left out. */
#include "run/run.h"

static mu_call call_of(enum mu_kind kind, size_t count, enum mu_dtype dtype, int64_t timeout_ms)
{
    mu_call call;

    mu_call_init(&call, kind);
    call.count = count;
    call.dtype = dtype;
    call.timeout_ms = timeout_ms;
    return call;
}

int mu_allreduce(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
                 enum mu_reduction reduction, int64_t timeout_ms)
{
    mu_call call = call_of(MU_ALLREDUCE, count, dtype, timeout_ms);

    call.in = in;
    call.out = out;
    call.reduction = reduction;
    return mu_make(run, &call, NULL);
}

int mu_reduce_scatter(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
                      enum mu_reduction reduction, int64_t timeout_ms)
{
    mu_call call = call_of(MU_REDUCE_SCATTER, count, dtype, timeout_ms);

    call.in = in;
    call.out = out;
    call.reduction = reduction;
    return mu_make(run, &call, NULL);
}

int mu_allgather(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
                 int64_t timeout_ms)
{
    mu_call call = call_of(MU_ALLGATHER, count, dtype, timeout_ms);

    call.in = in;
    call.out = out;
    return mu_make(run, &call, NULL);
}

int mu_broadcast(mu_run *run, void *buffer, size_t count, enum mu_dtype dtype, int root,
                 int64_t timeout_ms)
{
    mu_call call = call_of(MU_BROADCAST, count, dtype, timeout_ms);

    call.in = call.out = buffer;
    call.rank = root;
    return mu_make(run, &call, NULL);
}

int mu_reduce(mu_run *run, const void *in, void *out, size_t count, enum mu_dtype dtype,
              enum mu_reduction reduction, int root, int64_t timeout_ms)
{
    mu_call call = call_of(MU_REDUCE, count, dtype, timeout_ms);

    call.in = in;
    call.out = out;
    call.reduction = reduction;
    call.rank = root;
    return mu_make(run, &call, NULL);
}

int mu_meet(mu_run *run, int64_t timeout_ms)
{
    mu_call call = call_of(MU_MEET, 0, MU_U8, timeout_ms);

    return mu_make(run, &call, NULL);
}

int mu_send(mu_run *run, const void *in, size_t count, enum mu_dtype dtype, int to, uint32_t tag,
            int64_t timeout_ms)
{
    mu_call call = call_of(MU_SEND, count, dtype, timeout_ms);

    call.in = in;
    call.rank = to;
    call.tag = tag;
    return mu_make(run, &call, NULL);
}

int mu_recv(mu_run *run, void *out, size_t count, enum mu_dtype dtype, int from, uint32_t tag,
            int64_t timeout_ms)
{
    mu_call call = call_of(MU_RECV, count, dtype, timeout_ms);

    call.out = out;
    call.rank = from;
    call.tag = tag;
    return mu_make(run, &call, NULL);
}

int mu_allreduce_view(mu_run *run, const void *in, size_t count, enum mu_dtype dtype,
                      enum mu_reduction reduction, int64_t timeout_ms, const void **view_out)
{
    mu_call call = call_of(MU_ALLREDUCE, count, dtype, timeout_ms);
    mu_result result;
    int rc;

    call.in = in;
    call.reduction = reduction;
    call.flags = MU_VIEW;
    rc = mu_make(run, &call, &result);
    if (rc == MU_OK) {
        *view_out = result.view;
    }
    return rc;
}
