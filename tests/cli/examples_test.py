#!/usr/bin/env python3
"""The examples that train, alone: what they say, what they refuse, that their digests mean something.

usage: examples_test.py BUILD_EXAMPLES
"""
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # pylint: disable=wrong-import-position

FOLDER = sys.argv[1]
END = re.compile(r'digest=([0-9a-f]{64}) steps=(\d+) samples=(\d+)( accuracy=([\d.]+))?\n')
ENV = {key: value for key, value in os.environ.items() if not key.startswith('MUSTER_')}


def call(name, *words):
    program = os.path.join(FOLDER, name)
    if not os.path.exists(program):
        tap.skip(f'{name} is not built here')
    return subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, env=ENV, timeout=300)


def end(name, *words):
    """(digest, steps, samples, accuracy): the only line on stdout."""
    done = call(name, *words)
    assert done.returncode == 0, done.stderr
    found = END.fullmatch(done.stdout)
    assert found, done.stdout
    return found.group(1), int(found.group(2)), int(found.group(3)), found.group(5)


def fake(*words):
    return end('fake', '--bytes', '10000', '--steps', '12', *words)


def mnist(*words):
    return end('mnist', '--hidden', '8', *words)


def test_the_same_words_give_the_same_digest_and_time_changes_nothing():
    assert fake() == fake('--sleep-ms', '1')
    assert mnist('--steps', '5') == mnist('--steps', '5')


def test_what_changes_the_training_changes_the_digest():
    words = [(), ('--seed', '2'), ('--steps=13',), ('--slices', '16'), ('--global-batch', '255'),
             ('--samples', '600'), ('--bytes', '10004')]
    assert len({fake(*one)[0] for one in words}) == len(words)


def test_steps_and_samples_are_those_of_whole_epochs_and_parts_of_one():
    # 10 samples in steps of 4: 4, 4, 2, and again.
    words = ['--samples', '10', '--global-batch', '4']
    assert fake(*words, '--steps', '5')[1:3] == (5, 18)
    assert fake(*words, '--steps', '0', '--epochs', '2')[1:3] == (6, 20)
    assert fake(*words, '--steps', '4', '--epochs', '2')[1:3] == (4, 14)


def test_mnist_learns():
    accuracy = float(mnist('--steps', '150')[3])
    assert 0.6 < accuracy < 1, accuracy  # 0.1 is a guess.


def test_a_report_has_what_the_worker_did():
    with tempfile.TemporaryDirectory() as top:
        for path in (os.path.join(top, 'file.json'), top):
            fake('--report', path)
        reports = [name for name in os.listdir(top) if name != 'file.json']
        assert len(reports) == 1 and reports[0].endswith('.json'), reports
        for name in ('file.json', reports[0]):
            with open(os.path.join(top, name), encoding='utf-8') as file:
                report = json.load(file)
            assert (report['ended'], report['step'], report['slices']) == ('done', 12, 96), report
            assert report['changes'] == [] and report['pause_max_us'] == 0, report


def test_help_names_every_option_and_wrong_ones_are_refused_by_name():
    for name in ('fake', 'mnist'):
        done = call(name, '--help')
        options = re.findall(r'^  (--[a-z-]+)', done.stdout, re.M)
        assert done.returncode == 0 and len(options) > 8, done.stdout
        for words, why in ((['--steps', 'x'], '--steps is a whole number'),
                           (['--steps', '-1'], '--steps is a whole number'),
                           (['--slices', '2000'], "from 1 to 1024, not '2000'"),
                           (['--steps'], '--steps needs a value'),
                           (['--step', '3'], "there is no option '--step'"),
                           (['3'], "'3' is no option")):
            done = call(name, *words)
            assert done.returncode == 2 and why in done.stderr, (name, words, done.stderr)
    done = call('mnist', '--lr', 'nan')
    assert done.returncode == 2 and '--lr is a number' in done.stderr, done.stderr


def test_slices_that_are_no_power_of_two_are_refused():
    for name in ('fake', 'mnist'):
        done = call(name, '--slices', '6', '--steps', '1')
        assert done.returncode == 1 and 'power of two' in done.stderr, done.stderr


def test_damaged_images_are_refused_and_named():
    images = b'\0\0\x08\x03' + b'\0\0\0\x02' + b'\0\0\0\x01' * 2 + b'\x07\x08'
    labels = b'\0\0\x08\x01' + b'\0\0\0\x02' + b'\x01\x02'
    names = ('train-images-idx3-ubyte.gz', 'train-labels-idx1-ubyte.gz')
    for bad_images, bad_labels, why in ((images[:-1], labels, names[0] + ': it ends too early'),
                                        (b'', labels, names[0] + ': it can\'t be read'),
                                        (b'\1' + images[1:], labels, 'not in the IDX format'),
                                        (images[:4] + b'\xff' * 12, labels, 'make no sense'),
                                        (images, labels[:-1] + b'\x0a', 'not the labels'),
                                        (images, labels[:7] + b'\1\1', 'not the labels'),
                                        (None, labels, 'dataset-fashion-mnist')):
        with tempfile.TemporaryDirectory() as top:
            for name, data in zip(names, (bad_images, bad_labels)):
                if data is not None:
                    with gzip.open(os.path.join(top, name), 'wb') as file:
                        file.write(data)
            done = call('mnist', '--data', top)
            assert done.returncode == 1 and why in done.stderr, (why, done.stderr)


if __name__ == '__main__':
    tap.run(__name__)
