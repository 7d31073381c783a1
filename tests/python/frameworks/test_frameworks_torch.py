"""PyTorch of today: the plain loop made elastic, on the release that its users have."""
import re

EXAMPLE = 'examples/torch/elastic.py'
ARGS = ('--epochs', 1, '--samples', 1024)


def sha(text):
    return re.findall(r'^sha256 \w+', text, re.M)


def test_the_example_has_the_same_bits_alone_and_on_two_workers(framework):
    assert framework.version('torch').startswith('2.13.0')
    want = sha(framework.alone(EXAMPLE, ARGS).stdout)
    assert len(want) == 1
    c = framework.cluster(EXAMPLE, 2, args=ARGS, nnodes='2')
    c.wait()
    assert sha(c.out()) == want * 2, c.out()
