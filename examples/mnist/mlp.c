#include "mlp.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the pixels of Fashion-MNIST, from 0 to 1. */
#define PIXEL_MEAN 0.2860f
#define PIXEL_DEVIATION 0.3530f

int mlp_open(struct mlp *m, size_t in_n, size_t hidden_n, size_t batch_n)
{
    memset(m, 0, sizeof(*m));
    m->in_n = in_n;
    m->hidden_n = hidden_n;
    m->batch_n = batch_n;
    m->bias1 = hidden_n * in_n;
    m->layer2 = m->bias1 + hidden_n;
    m->bias2 = m->layer2 + MLP_CLASSES * hidden_n;
    m->weights_n = m->bias2 + MLP_CLASSES;
    m->in = malloc(batch_n * in_n * sizeof(float));
    m->hidden = malloc(batch_n * hidden_n * sizeof(float));
    m->slope = malloc(batch_n * hidden_n * sizeof(float));
    m->out = malloc(batch_n * MLP_CLASSES * sizeof(float));
    m->labels = malloc(batch_n);
    if (m->in == NULL || m->hidden == NULL || m->slope == NULL || m->out == NULL ||
        m->labels == NULL) {
        mlp_close(m);
        return -1;
    }
    for (int i = 0; i < 256; i++) {
        m->shades[i] = ((float)i / 255.0f - PIXEL_MEAN) / PIXEL_DEVIATION;
    }
    openblas_set_num_threads(1);
    return 0;
}

void mlp_close(struct mlp *m)
{
    free(m->in);
    free(m->hidden);
    free(m->slope);
    free(m->out);
    free(m->labels);
    memset(m, 0, sizeof(*m));
}

/* ---- the beginning ---- */

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Even between -limit and limit: nothing of libm but a root, which is exact everywhere. */
static void draw_layer(uint64_t *state, float *w, size_t n, size_t inputs_n)
{
    float limit = sqrtf(6.0f / (float)inputs_n);

    for (size_t i = 0; i < n; i++) {
        float unit = (float)(draw(state) >> 40) / (float)(1 << 24);

        w[i] = (2.0f * unit - 1.0f) * limit;
    }
}

void mlp_init(const struct mlp *m, uint64_t seed, float *weights)
{
    uint64_t state = seed;

    memset(weights, 0, m->weights_n * sizeof(float));
    draw_layer(&state, weights, m->hidden_n * m->in_n, m->in_n);
    draw_layer(&state, weights + m->layer2, MLP_CLASSES * m->hidden_n, m->hidden_n);
}

/* ---- forward ---- */

static void load(struct mlp *m, size_t at, const struct idx *set, uint64_t sample)
{
    const uint8_t *pixels = set->pixels + sample * set->pixels_n;
    float *to = m->in + at * m->in_n;

    for (size_t i = 0; i < m->in_n; i++) {
        to[i] = m->shades[pixels[i]];
    }
    m->labels[at] = set->labels[sample];
}

static void fill_rows(float *matrix, size_t rows_n, const float *row, size_t row_n)
{
    for (size_t i = 0; i < rows_n; i++) {
        memcpy(matrix + i * row_n, row, row_n * sizeof(float));
    }
}

/* in -> hidden -> out, for n samples; out is not yet a distribution. */
static void forward(struct mlp *m, const float *w, size_t n)
{
    int batch = (int)n, in = (int)m->in_n, hidden = (int)m->hidden_n;

    fill_rows(m->hidden, n, w + m->bias1, m->hidden_n);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, batch, hidden, in, 1.0f, m->in, in, w, in,
                1.0f, m->hidden, hidden);
    for (size_t i = 0; i < n * m->hidden_n; i++) {
        m->hidden[i] = m->hidden[i] > 0.0f ? m->hidden[i] : 0.0f;
    }
    fill_rows(m->out, n, w + m->bias2, MLP_CLASSES);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, batch, MLP_CLASSES, hidden, 1.0f,
                m->hidden, hidden, w + m->layer2, hidden, 1.0f, m->out, MLP_CLASSES);
}

static int largest(const float *out)
{
    int best = 0;

    for (int k = 1; k < MLP_CLASSES; k++) {
        if (out[k] > out[best]) {
            best = k;
        }
    }
    return best;
}

/* out becomes the gradient with respect to it, (p - y) / n. The loss of this sample. */
static float softmax(float *out, int label, size_t n)
{
    float top = out[largest(out)], sum = 0.0f, loss;

    for (int k = 0; k < MLP_CLASSES; k++) {
        out[k] = expf(out[k] - top);
        sum += out[k];
    }
    loss = logf(sum) - logf(fmaxf(out[label], 1e-30f));
    for (int k = 0; k < MLP_CLASSES; k++) {
        out[k] = (out[k] / sum - (k == label ? 1.0f : 0.0f)) / (float)n;
    }
    return loss;
}

/* ---- backward ---- */

static void add_rows(const float *matrix, size_t rows_n, size_t row_n, float *sum)
{
    memset(sum, 0, row_n * sizeof(float));
    for (size_t i = 0; i < rows_n; i++) {
        for (size_t k = 0; k < row_n; k++) {
            sum[k] += matrix[i * row_n + k];
        }
    }
}

/* out is the gradient with respect to it. */
static void backward(struct mlp *m, const float *w, size_t n, float *g)
{
    int batch = (int)n, in = (int)m->in_n, hidden = (int)m->hidden_n;

    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, MLP_CLASSES, hidden, batch, 1.0f, m->out,
                MLP_CLASSES, m->hidden, hidden, 0.0f, g + m->layer2, hidden);
    add_rows(m->out, n, MLP_CLASSES, g + m->bias2);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, batch, hidden, MLP_CLASSES, 1.0f, m->out,
                MLP_CLASSES, w + m->layer2, hidden, 0.0f, m->slope, hidden);
    for (size_t i = 0; i < n * m->hidden_n; i++) {
        m->slope[i] = m->hidden[i] > 0.0f ? m->slope[i] : 0.0f;
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, hidden, in, batch, 1.0f, m->slope, hidden,
                m->in, in, 0.0f, g, in);
    add_rows(m->slope, n, m->hidden_n, g + m->bias1);
}

void mlp_gradient(struct mlp *m, const float *weights, const struct idx *set,
                  const uint64_t *samples, size_t n, float *gradient, double *loss_out,
                  double *accuracy_out)
{
    double loss = 0;
    size_t right = 0;

    for (size_t i = 0; i < n; i++) {
        load(m, i, set, samples[i]);
    }
    forward(m, weights, n);
    for (size_t i = 0; i < n; i++) {
        float *out = m->out + i * MLP_CLASSES;

        right += largest(out) == m->labels[i];
        loss += (double)softmax(out, m->labels[i], n);
    }
    backward(m, weights, n, gradient);
    *loss_out = loss / (double)n;
    *accuracy_out = (double)right / (double)n;
}

void mlp_update(const struct mlp *m, float *weights, float *momentum, const float *gradient,
                float rate, float keep)
{
    for (size_t i = 0; i < m->weights_n; i++) {
        momentum[i] = keep * momentum[i] + gradient[i];
        weights[i] -= rate * momentum[i];
    }
}

double mlp_accuracy(struct mlp *m, const float *weights, const struct idx *set)
{
    size_t right = 0;

    for (size_t at = 0; at < set->n; at += m->batch_n) {
        size_t n = set->n - at < m->batch_n ? set->n - at : m->batch_n;

        for (size_t i = 0; i < n; i++) {
            load(m, i, set, at + i);
        }
        forward(m, weights, n);
        for (size_t i = 0; i < n; i++) {
            right += largest(m->out + i * MLP_CLASSES) == m->labels[i];
        }
    }
    return (double)right / (double)set->n;
}
