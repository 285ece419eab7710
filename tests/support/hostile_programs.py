"""Hostile programs for the sandbox of the course: what a learner's code that knows regard's source may try.

ATTEMPTS are bodies of functions that run one after another in a single process. Each returns something true if it
succeeded; an exception or something false means that it was contained. The test fills in the names in capitals: a
folder OUTSIDE with the file SECRET, the parent's process PARENT, PORT of a TCP listener, REGARD, the folder of regard.

PROGRAMS are whole answers to the exercise "softmax", each in a process of its own.
"""

HELPERS = """
import ctypes, errno, gc, importlib, io, json, mmap, os, signal, socket, struct, sys, threading, time
from pathlib import Path
import numpy as np
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return result >= 0
def c(function, *arguments):
    return getattr(libc, function)(*arguments) == 0
"""

ATTEMPTS = {
    # Reading files outside.
    "read-open": "return 'treasure' in open(SECRET).read()",
    "read-os-open": "return os.read(os.open(SECRET, 0), 99)",
    "read-numpy": "return len(np.fromfile(SECRET, 'u1'))",
    "read-memmap": "return len(np.memmap(SECRET, 'u1', 'r'))",
    "read-libc": "file = libc.open(SECRET.encode(), 0); return file >= 0",
    "read-syscall-open": "return syscall(2, SECRET.encode(), 0)",
    "read-syscall-openat": "return syscall(257, -100, SECRET.encode(), 0)",
    "read-syscall-openat2": "return syscall(437, -100, SECRET.encode(), (ctypes.c_uint64 * 3)(), 24)",
    "read-by-handle": "return syscall(303, -100, SECRET.encode(), ctypes.create_string_buffer(200), "
    "ctypes.byref(ctypes.c_int()), 0)",
    "read-proc-root": "return open('/proc/self/root' + SECRET).read()",
    "read-proc-1-root": "return open('/proc/1/root' + SECRET).read()",
    "read-proc-cwd": "return os.listdir('/proc/1/cwd')",
    "read-dots": "return open('../' * 12 + SECRET[1:]).read()",
    "read-symlink": "os.symlink(SECRET, 'link'); return open('link').read()",
    "read-hardlink": "os.link(SECRET, 'hard'); return open('hard').read()",
    "read-rename": "os.rename(SECRET, 'mine'); return open('mine').read()",
    "read-sendfile": "return os.sendfile(1, os.open(SECRET, 0), 0, 99)",
    "read-dirfd": "folder = os.open(OUTSIDE, os.O_PATH); return os.open('secret', 0, dir_fd=folder)",
    "read-exec-loader": "return importlib.machinery.SourceFileLoader('s', SECRET).get_data(SECRET)",
    "read-linecache": "import linecache; return linecache.getlines(SECRET)",
    "read-file-uri": "import urllib.request; return urllib.request.urlopen('file://' + SECRET).read()",
    "read-sqlite": "import sqlite3; return sqlite3.connect(SECRET).execute('pragma page_count').fetchall()",
    "read-zip": "import zipfile; return zipfile.ZipFile(SECRET).namelist()",
    "read-passwd": "return open('/etc/passwd').read()",
    "read-shadow": "return open('/etc/shadow').read()",
    "read-ssh": "return os.listdir(HOME + '/.ssh')",
    "read-old-root": "os.chdir('/'); return os.listdir('..')",
    "list-root": "return os.listdir('/')",
    "list-home": "return [name for name in os.listdir(HOME) if name != '.pyenv']",
    "list-outside": "return os.listdir(OUTSIDE)",
    "list-tmp": "return os.path.basename(OUTSIDE) in os.listdir(os.path.dirname(OUTSIDE))",
    "list-processes": "return [name for name in os.listdir('/proc') if name.isdigit()]",
    "list-devices": "return [name for name in os.listdir('/dev') if name in ('tty', 'mem', 'kmsg', 'sda', 'pts')]",
    "stat-outside": "return os.stat(SECRET)",
    "stat-home": "return os.path.exists(HOME + '/.bashrc') or os.path.exists(HOME + '/.ssh')",
    "access-outside": "return os.access(SECRET, os.F_OK)",
    "walk-for-regard": "return [p for f in sys.path for p in Path(f).glob('*/learn/exercises/*')]",
    # The reference solution and the grader.
    "reference-file": "return open(REGARD + '/learn/exercises/01-softmax/reference.py').read()",
    "reference-import": "sys.path.insert(0, str(Path(REGARD).parent)); from regard.learn import find_exercise; "
    "return find_exercise('softmax').reference",
    "reference-loader": "s = importlib.util.spec_from_file_location('e', REGARD + '/learn/exercise.py'); "
    "m = importlib.util.module_from_spec(s); s.loader.exec_module(m); return m",
    "reference-modules": "return [m for m in sys.modules if m.startswith('regard.learn.g')]",
    "reference-memory": "return [1 for o in gc.get_objects() if isinstance(o, dict) and 'reference' in list(o) "
    "and 'exp(' in str(o['reference'])]",
    "reference-metadata": "import importlib.metadata as m; return m.files('regard')",
    "grader-patch": "import regard.learn.grader.compare as c; c.compare_values = lambda *a: None; return True",
    # What the process knows of its surroundings.
    "environment": "return 'hush' in str(dict(os.environ)) or os.environ.get('USER') or os.environ.get('PWD')",
    "environment-proc": "return open('/proc/self/environ').read()",
    "environment-parent": "return open(f'/proc/{PARENT}/environ').read()",
    "command-line-parent": "return open(f'/proc/{PARENT}/cmdline').read()",
    "maps": "return open('/proc/self/maps').read()",
    "memory-file": "return open('/proc/self/mem', 'rb+')",
    "memory-parent": "return open(f'/proc/{PARENT}/mem', 'rb')",
    "file-descriptors": "return [os.readlink(f'/proc/self/fd/{n}') for n in range(9)]",
    "mounts": "return open('/proc/self/mounts').read()",
    "arguments": "return [a for a in sys.argv if a] or getattr(sys.modules['__main__'], '__file__', None)",
    "stack-names": "import traceback; return [f.filename for f in traceback.extract_stack() if '/' in f.filename]",
    "frame-names": "f, found = sys._getframe(), []\n    while f:\n"
    "        values = [v for v in [*f.f_locals.values(), *f.f_globals.values()] if v is not REGARD]\n"
    "        found += [v for v in values if len(str(v)) < 999 and 'learn/sandbox' in str(v)]\n"
    "        f = f.f_back\n    return found",
    "code-names": "f, found = sys._getframe(), []\n    while f:\n"
    "        for v in [*f.f_locals.values(), *f.f_globals.values()]:\n"
    "            members = vars(v).values() if hasattr(v, '__dict__') else ()\n"
    "            codes = [m.__code__ for m in [v, *members] if hasattr(m, '__code__')]\n"
    "            found += [c.co_filename for c in codes if REGARD in c.co_filename]\n"
    "        f = f.f_back\n    return found",
    "command-line-c": "n, a = ctypes.c_int(), ctypes.POINTER(ctypes.c_wchar_p)()\n"
    "    ctypes.pythonapi.Py_GetArgcArgv(ctypes.byref(n), ctypes.byref(a))\n"
    "    return [a[i] for i in range(n.value) if REGARD in a[i] or 'regard-' + 'run-' in a[i]]",
    "finders": "found = [getattr(x, '__dict__', 0) for x in [*sys.meta_path, *sys.path_hooks]]; "
    "return [x for x in found if REGARD in str(x)]",
    "referents": "seen, todo, found = set(), [sys.modules, gc.get_objects(), sys._getframe(2).f_locals], []\n"
    "    words = REGARD + '/learn', 'regard-' + 'run-'\n"
    "    while todo:\n        o = todo.pop()\n        if id(o) in seen: continue\n        seen.add(id(o))\n"
    "        if isinstance(o, str): found += [o for w in words if w in o and len(o) < 400]\n"
    "        else: todo += gc.get_referents(o)\n    return found",
    "command-line": "return [a for a in [*sys.orig_argv, *sys.argv, sys.executable] if '/' in a]",
    "temporary-names": "word = 'regard-' + 'run-'\n    dicts = [o for o in gc.get_objects() if isinstance(o, dict)]\n"
    "    return [v for d in dicts for v in list(d.values()) if isinstance(v, str) and word in v and len(v) < 999]",
    "stdin": "return sys.stdin.read() or os.read(0, 1)",
    "terminal": "return os.open('/dev/tty', os.O_RDWR)",
    "terminal-type-ahead": "import fcntl; return fcntl.ioctl(1, 0x5412, b'x') == b'x'",
    "terminal-take": "return any(syscall(16, n, 0x540E, 0) for n in range(9))",
    # Changing files outside.
    "write-open": "open(SECRET, 'w').write('mine'); return True",
    "write-append": "open(SECRET, 'a').write('mine'); return True",
    "write-truncate": "os.truncate(SECRET, 0); return True",
    "write-remove": "os.remove(SECRET); return True",
    "write-chmod": "os.chmod(SECRET, 0o777); return True",
    "write-chmod-libc": "return c('chmod', SECRET.encode(), 0o777)",
    "write-fchmodat2": "return syscall(452, -100, SECRET.encode(), 0o777, 0)",
    "write-chown": "os.chown(SECRET, os.getuid(), os.getgid()); return True",
    "write-times": "os.utime(SECRET, (1, 1)); return True",
    "write-attributes": "os.setxattr(SECRET, 'user.mine', b'1'); return True",
    "write-new-file": "open(OUTSIDE + '/new', 'w'); return True",
    "write-new-folder": "os.mkdir(OUTSIDE + '/new'); return True",
    "write-new-link": "os.symlink('/', OUTSIDE + '/new'); return True",
    "write-numpy": "np.save(OUTSIDE + '/new', np.ones(3)); return True",
    "write-tmp": "open('/tmp/regard-hostile', 'w'); return True",
    "write-shared-memory": "open('/dev/shm/regard-hostile', 'w'); return True",
    "write-pth": "open(np.__path__[0] + '/../hostile.pth', 'w'); return True",
    "write-usercustomize": "open(np.__path__[0] + '/../usercustomize.py', 'w'); return True",
    "write-numpy-source": "open(np.__file__, 'a'); return True",
    "write-pyc": "open(os.__file__.replace('os.py', '__pycache__/hostile.pyc'), 'wb'); return True",
    "write-core-pattern": "open('/proc/sys/kernel/core_pattern', 'w'); return True",
    "write-cgroup": "open('/sys/fs/cgroup/cgroup.procs', 'w'); return True",
    "device-node": "os.mknod('disk', 0o060666, os.makedev(8, 0)); return True",
    "named-pipe": "os.mkfifo('pipe'); return True",
    # Processes.
    "fork": "pid = os.fork(); return pid or os._exit(0)",
    "fork-libc": "pid = libc.fork(); return os._exit(0) if pid == 0 else pid > 0",
    "fork-syscall": "pid = libc.syscall(57); return os._exit(0) if pid == 0 else pid > 0",
    "clone-syscall": "pid = libc.syscall(56, 17, 0, 0, 0, 0); return os._exit(0) if pid == 0 else pid > 0",
    "clone3-syscall": "a = (ctypes.c_uint64 * 8)(); a[4] = 17; pid = libc.syscall(435, a, 64); "
    "return os._exit(0) if pid == 0 else pid > 0",
    "shell": "return os.system('true') == 0",
    "subprocess": "import subprocess; return subprocess.run(['/bin/true']).returncode == 0",
    "spawn": "return os.posix_spawn('/bin/true', ['true'], {})",
    "loader": "return os.posix_spawn('/lib64/ld-linux-x86-64.so.2', ['ld', '/bin/true'], {})",
    "setuid-program": "return os.posix_spawn('/usr/bin/su', ['su'], {})",
    "multiprocessing": "import multiprocessing as m; p = m.Process(target=int); p.start(); return True",
    "memory-file-program": "return syscall(319, b'program', 0)",
    "signal-parent": "os.kill(PARENT, 0); return True",
    "signal-everyone": "os.kill(-1, 0); return True",
    "signal-group": "os.killpg(0, 0); return True",
    "signal-tgkill": "return syscall(234, PARENT, PARENT, 0)",
    "signal-tkill": "return syscall(200, PARENT, 0)",
    "signal-queue": "return syscall(129, PARENT, 0, ctypes.create_string_buffer(128))",
    "signal-pidfd": "return syscall(434, PARENT, 0)",
    "signal-owner": "import fcntl; r, w = os.pipe(); fcntl.fcntl(r, 8, PARENT); return True",
    "trace-parent": "return syscall(101, 16, PARENT, 0, 0)",
    "trace-seize": "return syscall(101, 0x4206, PARENT, 0, 0)",
    "memory-of-parent": "b = ctypes.create_string_buffer(8); v = (ctypes.c_uint64 * 2)(ctypes.addressof(b), 8); "
    "return syscall(310, PARENT, v, 1, v, 1, 0)",
    "limits-of-parent": "import resource; resource.prlimit(PARENT, resource.RLIMIT_CPU); return True",
    "limits-raise": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)); return True",
    "priority-of-parent": "os.setpriority(os.PRIO_PROCESS, PARENT, 19); return True",
    "new-session": "os.setsid(); return True",
    # Privileges.
    "become-root": "os.setuid(0); return True",
    "become-root-groups": "os.setgroups([0]); return True",
    "capabilities": "h = (ctypes.c_uint32 * 2)(0x20080522, 0); d = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6); "
    "return syscall(126, h, d)",
    "user-namespace": "return c('unshare', 0x10000000)",
    "mount-namespace": "return c('unshare', 0x00020000)",
    "enter-namespace": "return syscall(308, 0, 0)",
    "mount": "return c('mount', b'tmpfs', b'/workspace', b'tmpfs', 0, None)",
    "remount-writable": "return c('mount', None, b'/', None, 32, None)",
    "new-mount-interface": "return syscall(430, b'proc', 0) or syscall(428, -100, b'/', 1)",
    "unmount": "return c('umount2', b'/workspace', 2)",
    "change-root": "os.chroot('/'); return True",
    "pivot-root": "return syscall(155, b'.', b'.')",
    "keys": "return syscall(250, 0, -3, 0, 0) or syscall(248, b'user', b'k', b'v', 1, -3)",
    "bpf": "return syscall(321, 0, ctypes.create_string_buffer(128), 128)",
    "performance-events": "return syscall(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)",
    "page-fault-handler": "return syscall(323, 1)",
    "io-uring": "return syscall(425, 8, ctypes.create_string_buffer(128))",
    "file-watch": "return syscall(253) or syscall(294, 0) or syscall(300, 0, 0)",
    "module": "return syscall(313, 0, b'', 0) or syscall(175, 0, 0, b'')",
    "reboot": "return syscall(169, 0xfee1dead, 672274793, 0x89ABCDEF, 0)",
    "clock": "time.clock_settime(time.CLOCK_REALTIME, time.time()); return True",
    "host-name": "socket.sethostname('mine'); return True",
    "port-access": "return syscall(172, 3)",
    "personality": "return syscall(135, 0x0040000)",
    "shared-memory": "return syscall(29, 0, 4096, 0o1777)",
    "message-queue": "return syscall(68, 0, 0o1777) or syscall(240, b'q', 0o102, 0o600, 0)",
    "seccomp-again": "return syscall(317, 1, 0, 0)",
    "dumpable": "return syscall(157, 4, 1, 0, 0, 0) and syscall(157, 0x59616d61, -1, 0, 0, 0)",
    "x32-interface": "return syscall(0x40000000 + 41, 2, 1, 0) or syscall(0x40000000 + 57)",
    # Network.
    "tcp": "socket.create_connection(('127.0.0.1', PORT), 2).send(b'hello'); return True",
    "tcp-libc": "return libc.socket(2, 1, 0) >= 0",
    "tcp-listen": "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); return True",
    "tcp-outside": "socket.create_connection(('192.0.2.1', 80), 1); return True",
    "udp": "return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))",
    "tcp6": "socket.socket(socket.AF_INET6).bind(('::1', 0)); return True",
    "unix-path": "socket.socket(socket.AF_UNIX).connect(OUTSIDE + '/socket'); return True",
    "unix-abstract": "socket.socket(socket.AF_UNIX).connect(f'\\0regard-hostile-{PARENT}'); return True",
    "unix-pair": "return syscall(53, 1, 1, 0, (ctypes.c_int * 2)())",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 0)); return True",
    "raw": "return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "packet": "return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "vsock": "return socket.socket(40, socket.SOCK_STREAM)",
    "kernel-crypto": "return socket.socket(38, socket.SOCK_SEQPACKET)",
    "name-lookup": "return socket.gethostbyname('example.com')",
    "interfaces": "return [name for _, name in socket.if_nameindex() if name != 'lo']",
}

DISARM = """
import __main__, gc, sys, types
for name in ("REFUSED", "REFUSED_EVENTS", "FILE_CHANGES"): setattr(__main__, name, ())
for o in gc.get_objects():
    if isinstance(o, types.FunctionType) and o.__name__ == "hook" and o.__closure__:
        for cell in o.__closure__:
            if isinstance(cell.cell_contents, (tuple, frozenset)): cell.cell_contents = ()
frame = sys._getframe()
while frame:
    frame.f_globals.get("__builtins__")
    frame = frame.f_back
"""
FORGE = """
import os, json, struct
def pack(tree, numbers=b""):
    text = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    return struct.pack("<Q", len(text)) + text + numbers
def report(data):
    for file in range(3, 4096):  # the number of the pipe depends on the files that the parent has open
        try:
            for start in range(0, len(data), 1 << 16): os.write(file, data[start:start + (1 << 16)])
        except OSError: pass
    os._exit(0)
def outcomes(packed):
    one = {"dict": {"value": {"bytes": [0, len(packed)]}, "mutated": {"plain": False}}}
    return pack({"dict": {"outcomes": {"list": [one]}, "again": one}}, packed)
"""

WRONG = {"mistake", "rows", "values"}  # the grader compared the values and found them wrong

# Name: (program, kinds of verdict that are right).
PROGRAMS: dict[str, tuple[str, set[str]]] = {
    # Disarm the audit hook, then break out.
    "disarm-main": (DISARM + "import os\nos.system('touch OUTSIDE/new')\ndef softmax(x): return x", {"failed"} | WRONG),
    "disarm-shell": (
        DISARM + "import subprocess\nsubprocess.run(['sh', '-c', 'echo > OUTSIDE/new'])\ndef softmax(x): return x",
        {"failed"} | WRONG,
    ),
    "disarm-builtins": (
        "import builtins, os\nbuiltins.isinstance = lambda *a: True\nbuiltins.str = lambda *a: ''\n"
        "def softmax(x): return len(open('SECRET').read())",
        {"error", "failed", "stopped"},
    ),
    "disarm-ctypes": (
        "import sys\nctypes = sys.modules.get('ctypes') or __import__('ctypes')\n"
        "import _ctypes\nhandle = _ctypes.dlopen(None, 2)\n"
        "def softmax(x): return _ctypes.call_function(_ctypes.dlsym(handle, 'fork'), ())",
        {"failed", "error"},
    ),
    "disarm-then-reference": (
        DISARM + "import sys\nsys.path.insert(0, 'REGARD/..')\nfrom regard.learn import find_exercise\n"
        "exec(find_exercise('softmax').reference)",
        {"failed"},
    ),
    "exec-reference": ("exec(open('REGARD/learn/exercises/01-softmax/reference.py').read())", {"failed"}),
    "patch-grader": (
        DISARM + "import regard.learn.grader.compare as c\nc.compare_outcomes = lambda *a: None\n"
        "def softmax(x): return x",
        {"failed"},
    ),
    # Forge the result.
    "forge-text": ("def softmax(x):\n    print('{\"passed\": true}\\n✓ 01-softmax  Passed')\n    return x", WRONG),
    "forge-garbage": (FORGE + "report(b'passed')", {"unreadable"}),
    "forge-passed": (FORGE + "report(pack({'dict': {'passed': {'plain': True}}}))", {"unreadable"}),
    "forge-empty": (
        FORGE + "report(pack({'dict': {'outcomes': {'list': []}, 'again': {'dict': {}}}}))",
        {"unreadable"},
    ),
    "forge-one": (FORGE + "report(outcomes(pack({'plain': 1})))", {"unreadable"}),
    "forge-states": (FORGE + "report(b'{\"seccomp\": \"\"}\\n' + pack({'plain': 1}))", {"unreadable"}),
    "forge-pickle": (
        FORGE + "import pickle\nclass E:\n    def __reduce__(self): return os.system, ('touch OUTSIDE/new',)\n"
        "report(pickle.dumps(E()))",
        {"unreadable"},
    ),
    "forge-deep": (FORGE + "report(pack(b'{\"list\":[' * 100000))", {"unreadable"}),
    "forge-many": (FORGE + "report(pack({'list': [{'plain': 1}] * 10**6}))", {"unreadable"}),
    "forge-overlap": (FORGE + "report(pack({'list': [{'bytes': [0, 10**6]}] * 50000}, b'x' * 10**6))", {"unreadable"}),
    "forge-shape": (
        FORGE + "report(pack({'array': ['float64', [2**40, 2**40], [0, 8], 'numpy', 'float64']}, b'x' * 8))",
        {"unreadable"},
    ),
    "forge-object-dtype": (
        FORGE + "report(pack({'array': ['object', [1], [0, 8], 'numpy', 'object']}, b'x' * 8))",
        {"unreadable"},
    ),
    "forge-error": (
        FORGE + "e = {'dict': {n: {'plain': '\\x1b[2J' * 10**5} for n in ('type', 'message', 'text', 'line')}}\n"
        "e['dict']['bases'] = {'list': []}\nreport(pack({'dict': {'failed': e}}))",
        {"failed"},
    ),
    "forge-missing": (FORGE + "report(pack({'dict': {'missing': {'plain': '\\x1b]0;x\\x07' * 9}}}))", {"missing"}),
    "forge-flood": (FORGE + "report(b'x' * (200 << 20))", {"large", "timeout"}),
    "forge-large": ("import numpy as np\ndef softmax(x): return np.zeros(10**6)", {"large"}),
    "patch-packing": (
        "import sys\nf = sys._getframe()\nwhile f:\n"
        "    s = f.f_locals.get('serialization')\n"
        "    if s: s.pack = lambda value: b'forged'\n    f = f.f_back\ndef softmax(x): return x",
        {"unreadable"},
    ),
    "patch-json": (
        "import json, struct\njson.dumps = lambda *a, **k: '{\"plain\": true}'\ndef softmax(x): return x",
        {"unreadable", "stopped", "kind"},
    ),
    "evil-equal": (
        "import numpy as np\nclass E(np.ndarray):\n    __eq__ = lambda s, o: True\n    __array__ = lambda s, *a: s\n"
        "def softmax(x): return np.zeros_like(x).view(E)",
        WRONG,
    ),
    "evil-array": (
        "class E:\n    def __array__(self, *a, **k): raise SystemExit\n    __eq__ = lambda s, o: True\n"
        "    dtype = 'float64'\n    shape = (3,)\ndef softmax(x): return E()",
        {"kind"},
    ),
    "evil-class": (
        "class E:\n    @property\n    def __class__(self): raise KeyboardInterrupt\ndef softmax(x): return E()",
        {"kind", "error", "exit", "stopped"},
    ),
    "evil-name": ("E = type('\\x1b[2J\\u202e' * 9, (), {})\ndef softmax(x): return E()", {"kind"}),
    "evil-list": (
        "class E(list):\n    def __iter__(self):\n        while True: yield 1\ndef softmax(x): return E()",
        {"timeout", "memory"},
    ),
    "evil-message": (
        "class E(Exception):\n    def __str__(self): raise SystemExit\ndef softmax(x): raise E",
        {"stopped", "error", "exit"},
    ),
    "evil-text": ("def softmax(x): raise ValueError('\\x1b]52;c;aGk=\\x07\\x9b2J\\u202e' * 99)", {"error"}),
    "evil-long-text": ("def softmax(x): return '\\x1b' * 10**5", {"kind"}),
    "evil-dict": ("def softmax(x): return {'type': '\\x1b[2J', 'message': '\\u202e' * 10**5}", {"kind"}),
    "evil-nan": ("import numpy as np\ndef softmax(x): return np.full_like(x, np.nan)", {"nan"}),
    "evil-objects": ("import numpy as np\ndef softmax(x): return np.array([print, x], dtype=object)", {"kind"}),
    # End or outlive the process.
    "exit-at-once": ("import os\nos._exit(0)", {"stopped"}),
    "exit-system": ("raise SystemExit(0)", {"exit"}),
    "abort": ("import os\ndef softmax(x): os.abort()", {"stopped"}),
    "crash": (DISARM + "import ctypes\ndef softmax(x): ctypes.string_at(0)", {"stopped", "error", "failed"}),
    "at-exit": (
        "import atexit, os\natexit.register(os.system, 'touch OUTSIDE/new')\ndef softmax(x): return x",
        WRONG,
    ),
    "threads-outlive": (
        "import threading, time\nfor _ in range(5): threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "def softmax(x): return x",
        WRONG,
    ),
    "ignore-signals": (
        "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\ndef softmax(x):\n    while True: pass",
        {"timeout"},
    ),
    "sleep": ("import time\ndef softmax(x): time.sleep(600)", {"timeout"}),
    # Exhaust the machine.
    "fork-bomb": (DISARM + "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", {"timeout"}),
    "daemon": (
        DISARM + "import os, time\ntry:\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            time.sleep(3); open('OUTSIDE/new', 'w')\nexcept OSError: pass\ndef softmax(x): return x",
        WRONG,
    ),
    "thread-bomb": (
        "import threading, time\ndef softmax(x):\n    try:\n        while True:\n"
        "            threading.Thread(target=time.sleep, args=(600,)).start()\n    except RuntimeError: return x",
        {"timeout", "memory"} | WRONG,
    ),
    "memory-bomb": ("def softmax(x):\n    a = []\n    while True: a.append(bytearray(10**7))", {"memory"}),
    "disk-one-file": (
        "def softmax(x):\n    with open('big', 'wb') as f:\n        while True: f.write(b'x' * 10**6)",
        {"error"},
    ),
    "disk-many-files": (
        "def softmax(x):\n    n = 0\n    while True:\n        n += 1\n        open(f'f{n}', 'wb').write(b'x' * 10**6)",
        {"error", "written"},
    ),
    "disk-empty-files": (
        "import os\ndef softmax(x):\n    n = 0\n    while True:\n        n += 1\n        os.mkdir(f'd{n}')",
        {"error", "written"},
    ),
    "print-flood": ("def softmax(x):\n    while True: print('x' * 10**6)", {"written", "timeout"}),
    "print-escapes": (
        "print('\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\rgone\\x08\\u202egnp.exe\\u2066')\ndef softmax(x): return x",
        WRONG,
    ),
    "bad-bytes": ("import os\nos.write(1, bytes(range(256)))\ndef softmax(x): return x", WRONG),
    "deep-recursion": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef softmax(x): return softmax(x)",
        {"stopped", "memory", "error", "timeout"},
    ),
    "regular-expression": ("import re\ndef softmax(x): re.match('(a*)*$', 'a' * 99 + 'b')", {"timeout"}),
    "huge-integer": ("def softmax(x): return str(9**9**9)", {"timeout", "memory"}),
    "32-bit-call": (
        "import mmap, sys\nctypes = sys.modules['ctypes'] if 'ctypes' in sys.modules else __import__('ctypes')\n"
        "page = mmap.mmap(-1, 4096, prot=7)\npage.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\n"
        "def softmax(x):\n    at = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "    return ctypes.CFUNCTYPE(ctypes.c_int)(at)()",
        {"stopped", "error"},
    ),
}
