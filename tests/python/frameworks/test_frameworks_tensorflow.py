"""TensorFlow, and Keras by both of its names: gradients of the tape, added by muster. Whoever is killed, the bits
are those of one worker alone."""
import pytest

# A part's gradient comes from the tape; the update is the optimizer's. The model's numbers are the state.
TRAIN = '''
    import hashlib, importlib, os, sys
    os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
    import muster
    from gate import gate
    run = muster.join()                       # before the long import: the agent knows whose worker this is
    import numpy
    import tensorflow as tf
    keras = importlib.import_module(sys.argv[1])

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, 'tanh'), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    inputs = numpy.random.default_rng(1).standard_normal((200, 6), 'float32')
    targets = inputs.sum(1, keepdims=True)

    def variables():
        kept = optimizer.variables
        return [*model.variables, *(kept() if callable(kept) else kept)]

    def save():
        return b''.join(numpy.asarray(one).tobytes() for one in variables())

    def load(data):
        for one in variables():
            value = numpy.asarray(one)
            one.assign(numpy.frombuffer(data[:value.nbytes], value.dtype).reshape(value.shape))
            data = data[value.nbytes:]

    run.keep_calls('model', save, load)
    for weight in model.trainable_variables:
        run.gradient(int(numpy.prod(weight.shape)))
    run.metric('loss')
    for epoch in run.epochs(2):
        for step in epoch.steps(len(inputs), 32, slices=4, seed=1):
            for part in step:
                gate(step.number)
                chosen = list(part.samples)
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(model(inputs[chosen]) - targets[chosen]))
                for out, gradient in zip(part.gradient, tape.gradient(loss, model.trainable_variables)):
                    numpy.frombuffer(out, 'float32')[:] = numpy.asarray(gradient).ravel()
                part.put(loss=float(loss))
            means = [tf.constant(numpy.frombuffer(one, 'float32').reshape(weight.shape))
                     for one, weight in zip(step.gradient, model.trainable_variables)]
            optimizer.apply_gradients(zip(means, model.trainable_variables))
            print('step', step.number, run.size, flush=True)
    print('digest', keras.__version__, hashlib.sha256(save()).hexdigest())
'''


@pytest.mark.parametrize('name,version', [('keras', '3.15.1'), ('tf_keras', '2.21.0')])
def test_the_bits_are_those_of_one_worker_when_one_of_two_is_killed(framework, name, version):
    assert framework.version('tensorflow-cpu') == '2.21.0'
    want = [line for line in framework.alone(TRAIN, (name,)).stdout.splitlines() if line.startswith('digest')]
    assert len(want) == 1 and want[0].split()[1] == version, want
    c = framework.cluster(TRAIN, 2, args=(name,), flags=('--max-restarts', '0'), nnodes='1:2', limit=5)
    c.gather('a', 'b')
    c.kill(1)
    c.limit()
    c.wait()
    assert c.lines('digest') == want, (c.lines('digest'), want)
    c.demand_audit(200, 32, 2 * 7, slices=4)
