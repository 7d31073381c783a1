#!/usr/bin/env python3
"""The count at the end of `make test` hides nothing."""
import contextlib
import io
import json
import os
import tempfile

import summary
import tap


def line_and_status(*tests):
    """The last line and exit status for tests given as (result, stdout) or (result, stdout,
    returncode)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'testlog.json')
        with open(path, 'w', encoding='utf-8') as log:
            for result, stdout, *code in tests:
                log.write(json.dumps({'name': 'a', 'result': result, 'stdout': stdout,
                                      'returncode': code[0] if code else 0}) + '\n')
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = summary.main([path])
    return out.getvalue().splitlines()[-1], status


def test_each_tap_case_counts():
    assert line_and_status(('OK', '1..3\nok 1 - a\nok 2 - b\nok 3\n')) == \
        ('3 passed, 0 failed, 0 skipped', 0)


def test_a_failed_case_counts_once():
    assert line_and_status(('FAIL', '1..2\nok 1 - a\nnot ok 2 - b\n', 1)) == \
        ('1 passed, 1 failed, 0 skipped', 1)


def test_a_skipped_case_is_neither_passed_nor_failed():
    assert line_and_status(('OK', '1..3\nok 1 - a\nok 2 # SKIP b\nnot ok 3 # SKIP c\n')) == \
        ('1 passed, 0 failed, 2 skipped', 0)
    assert line_and_status(('OK', '1..1\nok 1\n'), ('SKIP', '1..0 # SKIP no tool\n')) == \
        ('1 passed, 0 failed, 1 skipped', 0)


def test_a_name_that_speaks_of_skipping_is_not_skipped():
    assert line_and_status(('OK', '1..1\nok 1 - fields are skipped\n')) == \
        ('1 passed, 0 failed, 0 skipped', 0)


def test_cases_that_a_crash_kept_from_running_are_failed():
    assert line_and_status(('ERROR', '1..5\nok 1 - a\n', -11)) == \
        ('1 passed, 4 failed, 0 skipped', 1)


def test_a_crash_after_the_last_case_is_failed():
    assert line_and_status(('ERROR', '1..1\nok 1 - a\n', -6)) == \
        ('1 passed, 1 failed, 0 skipped', 1)


def test_a_crash_before_any_word_is_failed():
    assert line_and_status(('ERROR', '', -6)) == ('0 passed, 1 failed, 0 skipped', 1)
    assert line_and_status(('TIMEOUT', '')) == ('0 passed, 1 failed, 0 skipped', 1)
    assert line_and_status(('INTERRUPT', '')) == ('0 passed, 1 failed, 0 skipped', 1)


def test_other_programs_count_as_one():
    assert line_and_status(('OK', 'ok\nlots of talk\n'), ('FAIL', 'not ok\n', 1)) == \
        ('1 passed, 1 failed, 0 skipped', 1)


def test_nothing_passed_is_a_failure():
    assert line_and_status() == ('0 passed, 0 failed, 0 skipped', 1)


def test_a_log_that_is_missing_or_damaged_is_a_failure():
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert summary.main([os.path.join(folder, 'none.json')]) == 1
        assert out.getvalue().endswith('0 passed, 1 failed, 0 skipped\n')
        path = os.path.join(folder, 'bad.json')
        with open(path, 'w', encoding='utf-8') as log:
            log.write('{"name"')
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert summary.main([path]) == 1


if __name__ == '__main__':
    tap.run(__name__)
