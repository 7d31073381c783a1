#!/usr/bin/env python3
"""Keeps the tree tidy: layers, purity, sizes, blanks, guards, build lists, format.

usage: tidy.py [ROOT]

Prints TAP, one case per rule; each complaint is a line on stderr, "path:line: what is wrong".
"""
import os
import re
import shutil
import subprocess
import sys

# A folder includes only itself and those before it.
LAYERS = ['base', 'core', 'wire', 'store', 'journal', 'ckpt', 'depot', 'net', 'http', 'proc', 'link', 'comm',
          'data', 'ps', 'run', 'train', 'orchestrator', 'agent', 'cli']

PURE = ['core', 'wire']
PURE_HEADERS = {'muster.h', 'inttypes.h', 'limits.h', 'stdarg.h', 'stdbool.h', 'stddef.h',
                'stdint.h', 'stdio.h', 'stdlib.h', 'string.h'}
# Names are resolved, the log reads the clock and writes to stderr, and no two random bytes are the
# same.
IMPURE_OWN_HEADERS = {'base/address.h', 'base/log.h', 'base/random.h'}
IMPURE_CALLS = {
    'clock': 'clock clock_gettime clock_nanosleep ftime gettimeofday gmtime gmtime_r localtime '
             'localtime_r mktime nanosleep sleep strftime time timespec_get usleep __rdtsc '
             '__builtin_ia32_rdtsc __builtin_readcyclecounter',
    'randomness': 'arc4random arc4random_buf arc4random_uniform drand48 erand48 getentropy '
                  'getrandom jrand48 lrand48 mrand48 nrand48 rand rand_r random srand srand48 '
                  'srandom',
    'socket': 'accept bind connect epoll_create1 epoll_ctl epoll_wait getaddrinfo getsockopt '
              'listen poll recv recvfrom recvmsg select send sendmsg sendto setsockopt shutdown '
              'socket socketpair',
    'file': 'close creat dprintf fclose fdatasync fdopen fflush fgetc fgets fopen fprintf fputc '
            'fputs fread freopen fscanf fseek fsync ftell fwrite getc getchar getline ioctl '
            'lseek mkdir mkdtemp mkstemp mmap munmap open openat perror pipe pipe2 pread printf '
            'putc putchar puts pwrite read readv remove rename scanf stat tmpfile unlink vdprintf '
            'vfprintf vprintf write writev',
    'process': 'abort clearenv execv execve execvp _Exit _exit exit fork getenv getpid kill '
               'posix_spawn putenv raise secure_getenv setenv signal sigaction system syscall '
               'unsetenv vfork wait waitpid',
}
IMPURE_PREFIXES = {'pthread_': 'thread', 'thrd_': 'thread', 'mtx_': 'thread', 'cnd_': 'thread',
                   'sem_': 'thread', 'tss_': 'thread', 'SSL_': 'socket', 'uv_': 'socket',
                   'sqlite3_': 'file'}
IMPURE_MACROS = {'__DATE__': 'clock', '__TIME__': 'clock', '__TIMESTAMP__': 'clock'}
ALLOCATORS = set('malloc calloc realloc reallocarray free strdup strndup aligned_alloc '
                 'posix_memalign memalign valloc asprintf vasprintf alloca'.split())
MAY_ALLOCATE = re.compile(r'(^|_)(init|open|close|fini)$')

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 100

CLANG_FORMAT_MAJOR = 14  # Others differ in small ways.

TEXT = ('.c', '.h', '.def', '.py', '.sh', '.md', '.txt', '.build')
TABS_WELCOME = ('Makefile',)

CALL = re.compile(r'(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*\(')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


class File:
    """One file: its path below the root, its lines, and its lines without comments and text."""

    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), encoding='utf-8', newline='') as file:
            self.text = file.read()
        self.lines = self.text.split('\n')
        if self.lines[-1] == '':
            self.lines.pop()
        self.code = blank_out(self.text).split('\n') if path.endswith(('.c', '.h', '.def')) else []
        parts = path.split('/')
        self.layer = parts[1] if parts[0] == 'src' and len(parts) > 2 else None

    def is_c(self):
        return self.path.endswith(('.c', '.h'))


def blank_out(text):
    """The text with comments and the insides of string and character literals made blank.
    The names in #include lines stay."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        found = match.group(0)
        start = text.rfind('\n', 0, match.start()) + 1
        if found[0] == '"' and INCLUDE.match(text[start:match.end()]):
            return found
        if found[0] in '"\'':
            return found[0] + ' ' * (len(found) - 2) + found[-1]
        return re.sub(r'[^\n]', ' ', found)

    return token.sub(blank, text)


def functions(file):
    """Yields (name, first line, last line) of each function, counted from 1. The format puts
    the braces of a function, and of nothing else, alone at the start of a line."""
    first = name = None
    for i, line in enumerate(file.code):
        if first is None and line.rstrip() == '{':
            start = i
            while start > 0 and file.code[start - 1].strip() and \
                    not file.code[start - 1].rstrip().endswith((';', '}')) and \
                    not file.code[start - 1].startswith('#'):
                start -= 1
            head = re.sub(r'__attribute__\s*\(\(.*?\)\)\s*(?=\w)', '',
                          ' '.join(file.code[start:i]))
            found = re.search(r'(\w+)\s*\(', head)
            first, name = start, found.group(1) if found else '?'
        elif first is not None and line.rstrip() == '}':
            yield name, first + 1, i + 1
            first = None


def load(root):
    files = []
    for folder, folders, names in os.walk(root):
        below = os.path.relpath(folder, root)
        folders[:] = sorted(f for f in folders if not f.startswith('.') and f != '__pycache__' and
                            not (below == '.' and f.startswith('build')) and
                            not (below == 'bench' and f == 'results'))
        for name in sorted(names):
            if name.endswith(TEXT) or name in TABS_WELCOME:
                files.append(File(root, os.path.normpath(os.path.join(below, name))))
    return files


def layers(files):
    for file in files:
        if file.layer is None or not file.is_c():
            continue
        if file.layer not in LAYERS:
            yield file.path, 1, f'src/{file.layer} is no layer; the layers are {", ".join(LAYERS)}'
            continue
        for i, line in enumerate(file.code, 1):
            include = INCLUDE.match(line)
            if not include or include.group(1) == '<':
                continue
            target = include.group(2).split('/')[0]
            if '/' not in include.group(2) or target not in LAYERS:
                yield file.path, i, f'include "{include.group(2)}" by its layer: "layer/file.h"'
            elif LAYERS.index(target) > LAYERS.index(file.layer):
                yield file.path, i, f'{file.layer} is below {target} and must not include it'


def impure_call(name, own):
    if name in own:
        return None
    for kind, names in IMPURE_CALLS.items():
        if name in names.split():
            return kind
    for prefix, kind in IMPURE_PREFIXES.items():
        if name.startswith(prefix):
            return kind
    return None


def purity(files):
    for file in files:
        if file.layer not in PURE or not file.path.endswith(('.c', '.h', '.def')):
            continue
        own = {name for name, _, _ in functions(file)}
        for i, line in enumerate(file.code, 1):
            include = INCLUDE.match(line)
            if include:
                if include.group(1) == '<' and include.group(2) not in PURE_HEADERS:
                    yield file.path, i, f'<{include.group(2)}> has no place in a pure layer'
                elif include.group(2) in IMPURE_OWN_HEADERS:
                    yield file.path, i, f'"{include.group(2)}" has no place in a pure layer'
                continue
            for name in CALL.findall(line):
                kind = impure_call(name, own)
                if kind:
                    yield file.path, i, f'{name}() ({kind}) has no place in a pure layer'
            for macro, kind in IMPURE_MACROS.items():
                if re.search(rf'\b{macro}\b', line):
                    yield file.path, i, f'{macro} ({kind}) has no place in a pure layer'


def allocation(files):
    for file in files:
        if file.layer not in PURE or not file.path.endswith(('.c', '.h', '.def')):
            continue
        spans = list(functions(file))
        own = {name for name, _, _ in spans}
        for i, line in enumerate(file.code, 1):
            # A name without a call counts too: a pointer to free is as good as a call.
            for name in re.findall(r'(?<![\w.])(?<!->)[A-Za-z_]\w*', line):
                if name not in ALLOCATORS or name in own or INCLUDE.match(line):
                    continue
                inside = next((n for n, first, last in spans if first <= i <= last), None)
                if inside is None or not MAY_ALLOCATE.search(inside):
                    yield file.path, i, (f'{name} outside of a function named *_init, *_open, '
                                         f'*_close or *_fini: a pure layer allocates at init only')


def sizes(files):
    for file in files:
        if not file.path.endswith(('.c', '.h', '.def', '.py', '.sh')):
            continue
        if len(file.lines) > FILE_LINES_MAX:
            yield file.path, FILE_LINES_MAX, (f'{len(file.lines)} lines; '
                                              f'at most {FILE_LINES_MAX}')
        for name, first, last in functions(file):
            if last - first + 1 > FUNCTION_LINES_MAX:
                yield file.path, first, (f'{name}() has {last - first + 1} lines; '
                                         f'at most {FUNCTION_LINES_MAX}')


def blanks(files):
    for file in files:
        if not file.text:
            continue
        for i, line in enumerate(file.lines, 1):
            if '\t' in line and os.path.basename(file.path) not in TABS_WELCOME:
                yield file.path, i, 'a tab'
            if line != line.rstrip():
                yield file.path, i, 'blanks at the end of the line'
        if not file.text.endswith('\n') or file.text.endswith('\n\n'):
            yield file.path, len(file.lines), 'the file ends with exactly one newline'


def guards(files):
    for file in files:
        if not file.path.endswith('.h'):
            continue
        path = re.sub(r'^(src|include|tests)/', '', file.path)
        want = re.sub(r'[^A-Z0-9]', '_', path.upper())
        code = [line.strip() for line in file.code if line.strip()]
        if code[:2] != [f'#ifndef {want}', f'#define {want}'] or code[-1] != '#endif':
            yield file.path, 1, f'the whole file stands in one guard, {want}'


def listed(files):
    builds = {os.path.dirname(f.path): f.text for f in files
              if os.path.basename(f.path) == 'meson.build'}
    for file in files:
        if not file.path.endswith('.c') or not file.path.startswith(('src/', 'tests/', 'bench/')):
            continue
        folder, name = os.path.split(file.path)
        while folder and folder not in builds:
            folder = os.path.dirname(folder)
        below = os.path.relpath(file.path, folder) if folder else file.path
        # 'heap.c', or 'NAME' for test_NAME.c, fuzz_NAME.c and bench_NAME.c: those only.
        short = re.match(r'(?:test|fuzz|bench)_(\w+)\.c$', name)
        text = builds.get(folder, '')
        if f"'{below}'" not in text and not (short and f"'{short.group(1)}'" in text):
            yield file.path, 1, f'not in the list of {folder or "."}/meson.build: never compiled'
    for folder in builds:  # A list that nobody reads is none.
        above, name = os.path.split(folder)
        while above and above not in builds:
            above, name = os.path.dirname(above), os.path.basename(above) + '/' + name
        if folder and f"'{name}'" not in builds.get(above, f"'{name}'"):
            yield f'{folder}/meson.build', 1, f'{above or "."}/meson.build has no subdir for it: never read'


def formatter():
    """The clang-format to use, or None and why not."""
    for program in (f'clang-format-{CLANG_FORMAT_MAJOR}', 'clang-format'):
        path = shutil.which(program)
        if not path:
            continue
        version = subprocess.run([path, '--version'], stdout=subprocess.PIPE, text=True,
                                 check=False).stdout
        if re.search(rf'version {CLANG_FORMAT_MAJOR}\.', version):
            return path, None
    return None, f'clang-format {CLANG_FORMAT_MAJOR} is not installed'


def formatted(root, files, program):
    sources = [f.path for f in files if f.is_c()]
    if not sources:
        return
    done = subprocess.run([program, '--dry-run', '-Werror', '--style=file', *sources], cwd=root,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    seen = set()
    for line in done.stdout.splitlines():
        found = re.match(r'(\S+?):(\d+):\d+: error: ', line)
        if found and found.group(1) not in seen:
            seen.add(found.group(1))
            yield found.group(1), int(found.group(2)), 'not in the format (make format mends it)'
    if done.returncode != 0 and not seen:
        yield '.clang-format', 1, f'clang-format failed: {done.stdout.strip()[:200]}'


RULES = [
    ('a layer includes only itself and those above it', layers),
    ('core and wire have no clock, randomness, socket, file or thread', purity),
    ('core and wire allocate at init only', allocation),
    ('files and functions stay short', sizes),
    ('no tabs, no blanks at the end of a line', blanks),
    ('every header has the guard of its path', guards),
    ('every source is in a build list', listed),
]


def main(root):
    files = load(root)
    failed = 0
    print(f'1..{len(RULES) + 1}')
    for number, (name, rule) in enumerate(RULES, 1):
        failed += tell(number, name, list(rule(files)))
    program, why_not = formatter()
    number, name = len(RULES) + 1, 'all C files are in the format'
    if program:
        failed += tell(number, name, list(formatted(root, files, program)))
    else:
        print(f'ok {number} - {name} # SKIP {why_not}')
    return 1 if failed else 0


def tell(number, name, complaints):
    for path, line, what in complaints:
        print(f'{path}:{line}: {what}', file=sys.stderr)
    print(f'{"not ok" if complaints else "ok"} {number} - {name}')
    return bool(complaints)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else '.'))
