#!/usr/bin/env python3
"""What a person meets first: `muster` without, with right, and with wrong words.

usage: cli_test.py MUSTER
"""
import subprocess
import sys

import tap


def muster(*words, stdout=subprocess.PIPE):
    done = subprocess.run([sys.argv[1], *words], stdout=stdout, stderr=subprocess.PIPE, text=True,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_version_is_told_in_three_ways():
    for word in ('version', '--version', '-V'):
        status, out, err = muster(word)
        assert (status, err) == (0, ''), (status, err)
        assert out.startswith('muster 0.') and out.count('\n') == 1, out


def test_help_lists_every_command_and_explains_each():
    status, out, err = muster('help')
    assert (status, err) == (0, '')
    assert muster('--help') == muster('-h') == (status, out, err)
    commands = [line.split()[0] for line in out.splitlines() if line.startswith('  ')]
    assert 'help' in commands and 'version' in commands
    for command in commands:
        status, out, _ = muster('help', command)
        assert status == 0 and out.startswith(f'usage: muster {command}'), out


def test_no_command_shows_help_and_counts_as_misuse():
    status, out, _ = muster()
    assert status == 2 and 'usage: muster COMMAND' in out


def test_a_mistyped_command_gets_a_suggestion_and_status_2():
    for word in ('verion', 'versoin', 'Version', '--verison'):
        status, out, err = muster(word)
        assert (status, out) == (2, '') and 'Did you mean "muster version"?' in err, err
    status, _, err = muster('help', 'hlp')
    assert status == 2 and '"muster help"' in err, err


def test_a_strange_command_is_sent_to_help_and_status_2():
    for word in ('xyzzy', '', '-', 'x' * 1000):
        status, out, err = muster(word)
        assert (status, out) == (2, '') and 'lists them all' in err, err


def test_output_that_cannot_be_written_is_an_error():
    with open('/dev/full', 'w', encoding='utf-8') as full:
        status, _, err = muster('help', stdout=full)
    assert status == 1 and 'could not write' in err


if __name__ == '__main__':
    tap.run(__name__)
