#!/usr/bin/env python3
"""What a person meets first: `muster` without, with right, and with wrong words.

usage: cli_test.py MUSTER COMPLETION
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # pylint: disable=wrong-import-position

NEED_A_WORD = {'bench': 'allreduce', 'drain': 'NODE', 'takeover': 'JOB', 'shutdown': 'JOB', 'resize': 'N|auto'}


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


def commands():
    return [line.split()[0] for line in muster('help')[1].splitlines() if line.startswith('  ')]


def test_what_is_not_for_people_is_not_listed():
    assert 'keeper' not in commands()
    assert 'keeper' not in muster('keepr')[2]


def test_every_command_explains_itself_with_examples():
    for command in commands():
        status, out, err = muster(command, '--help')
        assert (status, err) == (0, ''), err
        assert muster(command, '-h') == muster('help', command) == (0, out, '')
        assert max(map(len, out.splitlines())) <= 100, command
        if command not in ('help', 'version'):
            assert '\nExamples:\n  ' in out and f'muster {command}' in out, out


def test_help_http_lists_routes_with_their_roles():
    status, out, err = muster('help', 'http')
    assert (status, err) == (0, '') and '  GET /healthz (none)\n' in out, out
    assert '  PUT /v1/jobs/{job}/config/{key...} (operator)\n' in out, out
    assert max(map(len, out.splitlines())) <= 100, out


def test_docs_http_has_the_routes_that_there_are():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), *'../../scripts/http_docs.py'.split('/'))
    subprocess.run([sys.executable, script, sys.argv[1], '--check'], check=True)


def test_exit_codes_are_documented_in_one_place():
    status, out, err = muster('help', 'exit-codes')
    assert (status, err) == (0, '')
    assert re.findall(r'^  (\d) ', out, re.M) == ['0', '1', '2', '3', '4', '5', '6'], out


def test_an_option_of_another_name_gets_a_suggestion_and_status_2():
    for command, word, meant in (('status', '--jsn', '--json'), ('events', '--folow', '--follow'),
                                 ('drain', '--token_fil=x', '--token-file'),
                                 ('serve', '--reconect', '--reconnect'), ('token', '--date', '--data'),
                                 ('version', '--halp', '--help')):
        status, out, err = muster(command, word)
        assert (status, out) == (2, '') and f'Did you mean {meant}?' in err, err
        assert err.startswith(f'muster {command}: there is no option'), err
        assert f'"muster {command} --help"' in err, err


def test_words_that_are_missing_or_too_many_are_status_2():
    for command in ('serve', 'events', 'token', 'version'):
        status, out, err = muster(command, 'extra')
        assert (status, out) == (2, '') and "'extra' is one word too many" in err, err
    for command, word in NEED_A_WORD.items():
        status, out, err = muster(command)
        assert (status, out) == (2, '') and f'usage: muster {command} [OPTIONS] {word}' in err, err
        status, _, err = muster(command, 'a', 'b')
        assert status == 2 and "'b' is one word too many" in err, err


def test_a_name_that_no_job_or_node_can_have_is_status_2():
    for words in (('drain', 'a b'), ('drain', 'a', '--job', ''), ('takeover', 'a/b'),
                  ('shutdown', 'x' * 64), ('status', 'é'), ('events', '--job', 'a b'),
                  ('resize', '2', '--job', ''), ('config', 'list', '--job', 'a b')):
        status, out, err = muster(*words)
        assert (status, out) == (2, '') and "can't be the name of a" in err, err


def test_settings_that_can_not_be_asked_for_are_status_2():
    for words, why in (((), 'usage: muster config'), (('gett', 'k'), "Did you mean 'get'?"),
                       (('get',), 'a word is missing'), (('put', 'k'), 'a word is missing'),
                       (('rm', 'k', 'v'), 'a word too many'), (('get', '../k'), '"../k"'),
                       (('get', 'k' * 128), 'too long'), (('put', 'k', 'v' * 65537), '64 KiB'),
                       (('put', 'k', '-1'), "there is no option '-1'"),
                       (('put', '--if-version', '0', 'k', 'v'), 'the version of a key, from 1'),
                       (('put', '--if-version', '2', '--create', 'k', 'v'), '--create is for put'),
                       (('get', '--if-version', '2', 'k'), '--if-version is for put and rm'),
                       (('get', '--create', 'k'), '--create is for put'),
                       (('get', '--raw', '--json', 'k'), '--raw is for get, without --json')):
        status, out, err = muster('config', *words)
        assert (status, out) == (2, '') and why in err, (words, err)
    for size in ('0', '-1', 'some', '1.5', '131073', ''):
        status, out, err = muster('resize', '--', size)
        assert (status, out) == (2, '') and f"'{size}' is no number of nodes" in err, err


def test_bad_values_say_what_is_wanted():
    for words, why in ((('status', '--timeout', 'soon'), "--timeout wants seconds, like 2 or 0.5"),
                       (('status', '--timeout'), '--timeout needs a value'),
                       (('status', '--endpoint', 'a:b'), '--endpoint: "a:b" is no address'),
                       (('status', '--rdzv_endpoint=a:1,'), '--rdzv_endpoint: '),
                       (('events', '--since', '-1'), "--since wants the number of an event"),
                       (('events', '--follow=maybe'), "--follow wants true or false, got 'maybe'")):
        status, out, err = muster(*words)
        assert (status, out) == (2, '') and why in err, err


def complete(*words):
    """What bash offers after these words."""
    script = f'. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _muster; ' \
             'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(['bash', '-c', script, 'bash', sys.argv[2], sys.argv[1], *words],
                          stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands_and_options():
    assert complete('') == commands() and complete('help', 'ver') == ['version']
    assert complete('st') == ['status']
    assert complete('status', '--js') == ['--json']
    assert {'--follow', '--since', '--help', '--rdzv-endpoint'} <= set(complete('events', '--'))
    assert '/etc/passwd' in complete('token', '--data', '/etc/passw')
    assert complete('token', '--role', 'v') == ['viewer']
    assert complete('status', 'x') == []
    assert complete('config', '') == ['get', 'list', 'put', 'rm', 'watch']
    assert complete('ckpt', 'e') == ['export'] and '--ckpt-zstd' in complete('run', '--ckpt')
    assert '/etc/passwd' in complete('ckpt', 'export', 'd', 'j', '--to', '/etc/passw')
    assert complete('config', '--if') == ['--if-version'] and complete('resize', 'a') == ['auto']
    assert complete('bench', 'a') == ['allreduce'] and complete('bench', '--dtype', 'b') == ['bf16']


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
