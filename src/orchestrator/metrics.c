/* /metrics: Prometheus' text format, version 0.0.4. Labels have few values: jobs are bounded by
 * jobs_max, metrics of one by METRICS_MAX, and nobody else has a label of its own. */
#include "orchestrator/web_state.h"
#include "orchestrator/words.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(FILE *out, const char *name, const char *type, const char *help, double value)
{
    head(out, name, type, help);
    fprintf(out, "%s %.17g\n", name, value);
}

static void count(FILE *out, const char *name, const char *help, uint64_t value)
{
    head(out, name, "counter", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void gauge(FILE *out, const char *name, const char *help, uint64_t value)
{
    head(out, name, "gauge", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/* ---- jobs and nodes ---- */

static const char *const job_states[] = {"forming", "running", "holding",
                                         "ending",  "done",    "failed"};
static const char *const node_states[] = {"registered", "warming", "warm",
                                          "member",     "leaving", "gone"};

struct tally {
    const struct orchestrator *o;
    FILE *out;
    int what; /* of job_figures */
    uint64_t jobs[ARRAY_LEN(job_states)];
    uint64_t nodes[ARRAY_LEN(node_states)];
};

static void tally_word(const char *word, const char *const *words, size_t n, uint64_t *counts)
{
    for (size_t i = 0; i < n; i++) {
        counts[i] += strcmp(word, words[i]) == 0;
    }
}

static void tally_node(void *arg, const struct node_look *n)
{
    struct tally *t = arg;

    tally_word(words_node(n), node_states, ARRAY_LEN(node_states), t->nodes);
}

static void tally_job(void *arg, const struct job_look *j)
{
    struct tally *t = arg;
    char why[TEXT_MAX_LEN];

    tally_word(words_job(j, why, sizeof(why)), job_states, ARRAY_LEN(job_states), t->jobs);
    cluster_each_node(t->o->cluster, j->view.name, tally_node, t);
}

static const struct {
    const char *name, *help;
} job_figures[] = {
    {"muster_job_generation", "Number of the newest generation of the job."},
    {"muster_job_members", "Workers in that generation."},
    {"muster_job_nodes", "Nodes of the job, members or not."},
    {"muster_job_step", "Last step that a member has reported."},
};

/* Names of jobs need no escapes: [A-Za-z0-9._-]. */
static void print_job(void *arg, const struct job_look *j)
{
    const struct tally *t = arg;
    const struct job_view *v = &j->view;
    const uint64_t values[ARRAY_LEN(job_figures)] = {v->generation, v->members_n, v->nodes_n,
                                                     v->step};

    fprintf(t->out, "%s{job=\"%s\"} %" PRIu64 "\n", job_figures[t->what].name, v->name,
            values[t->what]);
}

/* Trainers choose the names of their metrics. */
static void print_label(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
}

static void print_number(FILE *out, double value)
{
    if (isnan(value)) {
        fputs("NaN\n", out);
    } else if (isinf(value)) {
        fputs(value > 0 ? "+Inf\n" : "-Inf\n", out);
    } else {
        fprintf(out, "%.17g\n", value);
    }
}

static void print_training(const struct orchestrator *o, FILE *out)
{
    if (o->trainings == NULL) {
        return;
    }
    head(out, "muster_job_metric", "gauge", "Numbers that the job's trainers name, the newest.");
    for (const struct training *t = o->trainings; t != NULL; t = t->next) {
        for (uint32_t i = 0; i < t->n; i++) {
            fprintf(out, "muster_job_metric{job=\"%s\",name=\"", t->job);
            print_label(out, t->items[i].name);
            fputs("\"} ", out);
            print_number(out, words_metric(&t->items[i]));
        }
    }
}

static void print_jobs(struct orchestrator *o, FILE *out)
{
    struct tally t = {.o = o, .out = out};

    cluster_each_job(o->cluster, tally_job, &t);
    head(out, "muster_jobs", "gauge", "Jobs by their state.");
    for (size_t i = 0; i < ARRAY_LEN(job_states); i++) {
        fprintf(out, "muster_jobs{state=\"%s\"} %" PRIu64 "\n", job_states[i], t.jobs[i]);
    }
    head(out, "muster_nodes", "gauge", "Nodes of all jobs by their state.");
    for (size_t i = 0; i < ARRAY_LEN(node_states); i++) {
        fprintf(out, "muster_nodes{state=\"%s\"} %" PRIu64 "\n", node_states[i], t.nodes[i]);
    }
    for (t.what = 0; t.what < (int)ARRAY_LEN(job_figures); t.what++) {
        head(out, job_figures[t.what].name, "gauge", job_figures[t.what].help);
        cluster_each_job(o->cluster, print_job, &t);
    }
    print_training(o, out);
}

/* ---- what has happened ---- */

static void print_counts(const struct orchestrator *o, FILE *out)
{
    const struct counts *n = &o->counts;
    const struct listen_counts *conns = listen_counts(o->listener);

    head(out, "muster_generations_total", "counter",
         "Generations that were published, by their kind.");
    for (unsigned i = 0; i < GENERATION_KIND_N; i++) {
        fprintf(out, "muster_generations_total{kind=\"%s\"} %" PRIu64 "\n", words_generation(i),
                n->generations[i]);
    }
    head(out, "muster_lost_total", "counter", "Nodes and workers that were lost.");
    fprintf(out, "muster_lost_total{what=\"node\"} %" PRIu64 "\n", n->lost_nodes);
    fprintf(out, "muster_lost_total{what=\"worker\"} %" PRIu64 "\n", n->lost_workers);
    count(out, "muster_healed_total",
          "How often a job went back because the states of its workers differed.", n->healed);
    count(out, "muster_renewals_total", "Renewals of leases that came in.", n->renewals);
    head(
        out, "muster_refused_total", "counter",
        "Who was refused: an agent by the cluster, or a connection for its token, silence, a limit "
        "or bad frames.");
    fprintf(out, "muster_refused_total{what=\"agent\"} %" PRIu64 "\n", n->refused);
    fprintf(out, "muster_refused_total{what=\"token\"} %" PRIu64 "\n", conns->refused);
    fprintf(out, "muster_refused_total{what=\"silent\"} %" PRIu64 "\n", conns->timed_out);
    fprintf(out, "muster_refused_total{what=\"limit\"} %" PRIu64 "\n", conns->shed);
    fprintf(out, "muster_refused_total{what=\"frames\"} %" PRIu64 "\n", conns->broken);
    gauge(out, "muster_connections", "Connections of agents and commands, now.", conns->now);
    count(out, "muster_settings_changes_total", "Changes of settings that were made.", n->settings);
    count(out, "muster_events_total", "Events that were noted.", o->events.last);
}

static void print_journal(const struct orchestrator *o, FILE *out)
{
    struct journal_look l = journal_look(o->journal);

    count(out, "muster_journal_records_total", "Records that the journal has ever had.", l.seq);
    gauge(out, "muster_journal_bytes", "Bytes of records since the last snapshot.", l.bytes);
    count(out, "muster_journal_failures_total", "Records that could not be written.", l.failed_n);
    gauge(out, "muster_journal_pending", "Records that wait to be written.", l.pending_n);
    gauge(out, "muster_journal_writable", "Whether the last write succeeded.", l.writable);
}

static void print_checkpoints(const struct orchestrator *o, FILE *out)
{
    const struct counts *n = &o->counts;

    gauge(out, "muster_checkpoint_bytes", "Bytes of checkpoints that are kept here.",
          deposits_kept(o));
    count(out, "muster_checkpoint_received_bytes_total", "Bytes of checkpoints that came in.",
          n->ckpt_received);
    count(out, "muster_checkpoint_given_bytes_total", "Bytes of checkpoints that were read.",
          n->ckpt_given);
    count(out, "muster_checkpoint_refused_total", "Checkpoints that there was no room for.",
          n->ckpt_refused);
}

static void print_http(const struct orchestrator *o, FILE *out)
{
    static const char *const codes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    struct http_stats s;

    http_stats(o->web->http, &s);
    head(out, "muster_http_requests_total", "counter", "HTTP requests by their answer's status.");
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        fprintf(out, "muster_http_requests_total{code=\"%s\"} %" PRIu64 "\n", codes[i],
                s.requests_n[i]);
    }
    count(out, "muster_http_refused_total", "HTTP requests without a token, or with a wrong one.",
          s.refused_n);
    gauge(out, "muster_http_connections", "HTTP connections, now.", s.conns_n);
    gauge(out, "muster_http_streams", "Streams of events, now.", s.streams_n);
    count(out, "muster_http_gaps_total", "Times that a stream fell behind and missed something.",
          s.gaps_n);
}

/* ---- the process ---- */

static unsigned open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    if (dir == NULL) {
        return 0;
    }
    closedir(dir);
    return n > 3 ? n - 3 : 0; /* ".", ".." and the directory */
}

static double resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (f != NULL) {
        if (fscanf(f, "%*u %lu", &pages) != 1) {
            pages = 0;
        }
        fclose(f);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void print_process(const struct orchestrator *o, FILE *out)
{
    head(out, "muster_build_info", "gauge", "The version that runs; always 1.");
    fprintf(out, "muster_build_info{version=\"%s\"} 1\n", mu_version());
    one(out, "muster_start_time_seconds", "gauge", "When this orchestrator started, since 1970.",
        (double)o->start_wall_ms / 1e3);
    one(out, "process_start_time_seconds", "gauge", "When this process started, since 1970.",
        (double)o->start_wall_ms / 1e3);
    one(out, "process_cpu_seconds_total", "counter", "CPU time of this process.", cpu_seconds());
    one(out, "process_resident_memory_bytes", "gauge", "Memory of this process that is resident.",
        resident_bytes());
    gauge(out, "process_open_fds", "Open files of this process.", open_files());
}

char *metrics_text(struct orchestrator *o, size_t *n_out)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, n_out);
    bool failed;

    if (out == NULL) {
        return NULL;
    }
    print_process(o, out);
    print_jobs(o, out);
    print_counts(o, out);
    print_journal(o, out);
    print_checkpoints(o, out);
    print_http(o, out);
    failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
