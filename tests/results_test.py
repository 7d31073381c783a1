#!/usr/bin/env python3
"""The count at the end of `make test` hides nothing."""
import results
import tap


def line(out, code=0, end=''):
    return results.read(out, code, end).line()


def test_each_tap_case_counts():
    assert line('1..3\nok 1 - a\nok 2 - b\nok 3\n') == '3 passed, 0 failed, 0 skipped'


def test_a_failed_case_counts_once_and_has_its_name_and_why():
    found = results.read('1..2\nok 1 - a\nnot ok 2 - b\n# 1 != 2\n# here\n# b took 0.1 s\n', 1)
    assert found.line() == '1 passed, 1 failed, 0 skipped'
    assert found.failed == [('b', '1 != 2; here')], found.failed


def test_a_failed_case_is_failed_whatever_the_exit_code_says():
    assert line('1..1\nnot ok 1 - a\n', 0) == '0 passed, 1 failed, 0 skipped'


def test_a_skipped_case_is_neither_passed_nor_failed_and_says_why():
    found = results.read('1..3\nok 1 - a\nok 2 - b # SKIP no tool\nnot ok 3 # SKIP c\n', 0)
    assert found.line() == '1 passed, 0 failed, 2 skipped' and found.skipped == ['no tool', 'c']
    assert results.read('1..0 # SKIP no tool\n', 0).skipped == ['no tool']
    assert line('', 77) == '0 passed, 0 failed, 1 skipped'


def test_a_name_that_speaks_of_skipping_is_not_skipped():
    assert line('1..1\nok 1 - fields are skipped\n') == '1 passed, 0 failed, 0 skipped'


def test_cases_that_a_crash_kept_from_running_are_failed():
    assert line('1..5\nok 1 - a\n', -11) == '1 passed, 4 failed, 0 skipped'
    assert line('1..5\nok 1 - a\n', 0) == '1 passed, 4 failed, 0 skipped'


def test_a_crash_after_the_last_case_is_failed():
    assert line('1..1\nok 1 - a\n', -6) == '1 passed, 1 failed, 0 skipped'


def test_a_crash_before_any_word_is_failed():
    assert line('', -6) == '0 passed, 1 failed, 0 skipped'
    assert line('', 0, 'it took too long') == '0 passed, 1 failed, 0 skipped'


def test_other_programs_count_as_one():
    assert line('ok\nlots of talk\n') == '1 passed, 0 failed, 0 skipped'
    assert line('not ok\n', 1) == '0 passed, 1 failed, 0 skipped'


if __name__ == '__main__':
    tap.run(__name__)
