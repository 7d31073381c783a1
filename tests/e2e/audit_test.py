#!/usr/bin/env python3
"""The audit of samples finds what is wrong, whatever that is, and nothing else.

usage: audit_test.py [MUSTER [CASE…]]
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import audit  # pylint: disable=wrong-import-position
import tap  # pylint: disable=wrong-import-position

WALK = audit.Walk(samples=21, batch=8, slices=4)  # 3 steps in an epoch: 8, 8 and 5 samples
STEPS = 8  # Two epochs, and two steps of a third.


def ids_of(step, piece):
    """Which samples a slice has: here simply in their order."""
    first = (step - 1) % WALK.per_epoch * WALK.batch
    n = WALK.step_samples(step)
    return list(range(first + n * piece // WALK.slices, first + n * (piece + 1) // WALK.slices))


def good(owner=lambda step, piece: 'a' if piece < 2 else 'b', generation=lambda step: 1,
         committers=lambda step: 'ab'):
    """Lines by file, of an exact run."""
    files = {}
    for step in range(1, STEPS + 1):
        for piece in range(WALK.slices):
            text = ' '.join(map(str, ids_of(step, piece)))
            files.setdefault(owner(step, piece), []).append(
                f'slice {generation(step)} {step} {piece} {text}')
        for who in committers(step):
            files.setdefault(who, []).append(f'commit {generation(step)} {step}')
    return files


def judge(files, steps=STEPS):
    log = audit.Log()
    for name, lines in files.items():
        log.file(name, ''.join(line + '\n' for line in lines))
    return audit.check(log, WALK, steps)


def finds(files, *texts, steps=STEPS):
    faults = judge(files, steps).faults
    for text in texts:
        assert any(text in fault for fault in faults), (text, faults)
    assert faults
    return faults


def test_an_exact_run_has_no_faults():
    result = judge(good())
    assert result.faults == [] and result.steps == STEPS, result.faults
    assert (result.lost, result.repeated, result.generations) == (0, 0, {1})


def test_owners_and_generations_may_change_from_step_to_step():
    files = good(lambda step, piece: 'abc'[(step + piece) % 3], lambda step: (step + 1) // 2,
                 lambda step: 'bc' if step > 3 else 'abc')
    assert judge(files).faults == []


def test_a_reduce_that_came_to_nothing_does_not_count():
    files = good(generation=lambda step: 2)
    files['c'] = ['slice 1 4 0 1 2', 'slice 1 4 3 9 9', 'slice 1 1 1 3 3']
    assert judge(files).faults == []


def test_a_line_that_was_not_finished_does_not_count():
    files = good()
    log = audit.Log()
    for name, lines in files.items():
        log.file(name, ''.join(line + '\n' for line in lines))
    log.file('c', 'slice 3 9 0 1 2\nslice 3 9 1 4')
    assert audit.check(log, WALK, STEPS).faults == []
    assert (3, 9, 0) in log.slices and (3, 9, 1) not in log.slices


def test_a_lost_slice_is_found():
    files = good()
    files['b'] = [line for line in files['b'] if not line.startswith('slice 1 5 3 ')]
    faults = finds(files, 'step 5: nobody gave slice 3 in generation 1', 'epoch 1: 19 different')
    assert judge(files).lost == 2 and len(faults) == 2, faults


def test_a_slice_of_another_generation_does_not_replace_a_lost_one():
    files = good()
    files['b'] = [line.replace('slice 1 5 3 ', 'slice 2 5 3 ') for line in files['b']]
    finds(files, 'step 5: nobody gave slice 3 in generation 1')


def test_a_repeated_slice_is_found():
    files = good()
    files['b'].append(f'slice 1 2 0 {" ".join(map(str, ids_of(2, 0)))}')
    finds(files, 'step 2: slice 0 was given 2 times in generation 1: by a, b',
          'epoch 0: counted more than once: 8 (2 times), 9 (2 times)')
    assert judge(files).repeated == 2


def test_samples_of_another_step_are_found():
    files = good()
    want = f'slice 1 2 1 {" ".join(map(str, ids_of(2, 1)))}'
    files['a'][files['a'].index(want)] = f'slice 1 2 1 {" ".join(map(str, ids_of(1, 1)))}'
    result = judge(files)
    assert (result.lost, result.repeated) == (2, 2), result.faults
    finds(files, 'epoch 0: counted more than once: 2 (2 times), 3 (2 times)',
          'missing: [10, 11]')


def test_too_many_and_too_few_samples_in_a_slice_are_found():
    files = good()
    files['a'][files['a'].index('slice 1 1 0 0 1')] = 'slice 1 1 0 0 1 2'
    finds(files, 'step 1: slice 0 of a has 3 samples, not 2')
    files = good()
    files['a'][files['a'].index('slice 1 1 0 0 1')] = 'slice 1 1 0 0'
    finds(files, 'step 1: slice 0 of a has 1 samples, not 2')


def test_the_smaller_last_batch_of_an_epoch_is_held_to_its_size():
    assert [WALK.step_samples(step) for step in range(1, 7)] == [8, 8, 5, 8, 8, 5]
    assert [WALK.slice_samples(3, piece) for piece in range(4)] == [1, 1, 1, 2]
    files = good()
    files['b'][files['b'].index('slice 1 6 3 19 20')] = 'slice 1 6 3 19'
    finds(files, 'step 6: slice 3 of b has 1 samples, not 2', 'epoch 1: 20 different')


def test_samples_that_do_not_exist_are_found():
    files = good()
    files['b'][files['b'].index('slice 1 6 3 19 20')] = 'slice 1 6 3 19 21'
    finds(files, 'epoch 1: there are no samples [21]')


def test_empty_slices_need_not_be_given():
    walk = audit.Walk(samples=2, batch=2, slices=4)
    log = audit.Log()
    log.file('a', 'slice 1 1 1 0\nslice 1 1 3 1\ncommit 1 1\n')
    assert audit.check(log, walk, 1).faults == []


def test_a_step_with_two_results_is_found():
    files = good()
    files['b'][files['b'].index('commit 1 4')] = 'commit 2 4'
    finds(files, 'step 4 was committed from different generations: 1 by a; 2 by b')


def test_a_step_that_is_committed_twice_is_found():
    files = good()
    files['b'].append('commit 1 4')
    finds(files, 'step 4 was committed twice by b')


def test_a_missing_step_is_found():
    files = good(committers=lambda step: '' if step == 7 else 'ab')
    finds(files, 'step 7 was never committed')
    finds(good(), 'step 9 was never committed', steps=9)
    finds(good(), 'step 8 was committed: the run has only 7', steps=7)
    finds({}, 'step 1 was never committed')


def test_a_slice_that_does_not_exist_is_found():
    files = good()
    files['a'].append('slice 1 3 4 5')
    finds(files, 'step 3: there are no slices [4]')


def test_a_damaged_line_is_found():
    for line in ('slice 1', 'slice a b c', 'commit 1', 'commit 1 2 3', 'nothing', ''):
        files = good()
        files['a'].append(line)
        finds(files, 'a: not a line of an audit')


def test_as_a_program_it_says_so_and_fails():
    with tempfile.TemporaryDirectory() as folder:
        def run(*more):
            return subprocess.run([sys.executable, audit.__file__, folder, '--samples', '21',
                                   '--global-batch', '8', '--slices', '4', *more], check=False,
                                  capture_output=True, text=True)
        assert run().returncode == 1  # Nothing at all is not well.
        for name, lines in good().items():
            with open(os.path.join(folder, f'{name}.0.1.log'), 'w', encoding='ascii') as file:
                file.write(''.join(line + '\n' for line in lines))
        done = run()
        assert done.returncode == 0, done.stderr
        assert done.stdout == 'steps=8 generations=1 lost=0 repeated=0 faults=0\n', done.stdout
        done = run('--steps', '9')
        assert done.returncode == 1 and 'step 9 was never' in done.stderr, done


if __name__ == '__main__':
    tap.run(__name__, only=sys.argv[2:])
