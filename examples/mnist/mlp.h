/* A perceptron with one hidden layer: pixels - ReLU - softmax over ten classes, in float32.
 *
 * The same samples and weights give the same bits wherever they are computed: one thread, the same
 * calls on the same shapes, no sum whose order is left open. */
#ifndef EXAMPLES_MNIST_MLP_H
#define EXAMPLES_MNIST_MLP_H

#include "idx.h"

#define MLP_CLASSES 10

struct mlp {
    size_t in_n, hidden_n;
    size_t batch_n; /* samples that there is room for */
    float shades[256];

    /* Weights lie in one vector, and so do gradients: hidden_n × in_n of the first layer at 0, then
     * its biases, the MLP_CLASSES × hidden_n of the second, and its biases. */
    size_t bias1, layer2, bias2, weights_n;

    /* of a batch, row after row */
    float *in, *hidden, *slope, *out;
    uint8_t *labels;
};

/* batch_n: the most samples of a call. mlp_close() releases it. -1: no memory. */
int mlp_open(struct mlp *m, size_t in_n, size_t hidden_n, size_t batch_n);
void mlp_close(struct mlp *m);

/* The first weights, of the seed alone. */
void mlp_init(const struct mlp *m, uint64_t seed, float *weights);

/* Means over the given samples: the gradient of the cross entropy, that loss itself, and how many
 * were right. */
void mlp_gradient(struct mlp *m, const float *weights, const struct idx *set,
                  const uint64_t *samples, size_t n, float *gradient, double *loss_out,
                  double *accuracy_out);

/* How many of the set, from 0 to 1, are told right. */
double mlp_accuracy(struct mlp *m, const float *weights, const struct idx *set);

/* Momentum, then the weights. */
void mlp_update(const struct mlp *m, float *weights, float *momentum, const float *gradient,
                float rate, float keep);

#endif
