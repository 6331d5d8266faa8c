"""`oneloop.compat.gevent`: gevent's names, and how a program gets them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from textwrap import dedent

import pytest

from oneloop import green
from oneloop.compat import gevent
from oneloop.compat.gevent import modules

# `__all__` of the documented modules of gevent 26.9.0; its own names alone, where it shows a module of the stdlib.
NAMES = {
    "": "Greenlet GreenletExit Timeout config fork get_hub getcurrent getswitchinterval idle iwait joinall "
    "kill killall reinit setswitchinterval signal_handler sleep spawn spawn_later spawn_raw wait "
    "with_timeout",
    "backdoor": "BackdoorServer",
    "baseserver": "BaseServer",
    "builtins": "",
    "contextvars": "Context ContextVar Token copy_context",
    "core": "embeddable_backends get_header_version get_version loop recommended_backends supported_backends time",
    "event": "AsyncResult Event",
    "events": "DoNotPatch EventLoopBlocked GeventDidPatchAllEvent GeventDidPatchBuiltinModulesEvent "
    "GeventDidPatchModuleEvent GeventPatchEvent GeventWillPatchAllEvent GeventWillPatchEvent "
    "GeventWillPatchModuleEvent IEventLoopBlocked IGeventDidPatchAllEvent "
    "IGeventDidPatchBuiltinModulesEvent IGeventDidPatchEvent IGeventDidPatchModuleEvent "
    "IGeventPatchEvent IGeventWillPatchAllEvent IGeventWillPatchEvent IGeventWillPatchModuleEvent "
    "IMemoryUsageThresholdExceeded IMemoryUsageUnderThreshold IPeriodicMonitorThread "
    "IPeriodicMonitorThreadStartedEvent MemoryUsageThresholdExceeded MemoryUsageUnderThreshold "
    "PeriodicMonitorThreadStartedEvent subscribers",
    "exceptions": "LoopExit",
    "fileobject": "FileObject FileObjectBlock FileObjectPosix FileObjectThread",
    "greenlet": "Greenlet joinall killall",
    "hub": "GreenletExit Hub Waiter get_hub getcurrent kill reinit signal sleep spawn_raw",
    "local": "local",
    "lock": "BoundedSemaphore DummySemaphore RLock Semaphore",
    "monkey": "MonkeyPatchWarning get_original is_module_patched is_object_patched main patch_all patch_builtins "
    "patch_dns patch_module patch_os patch_queue patch_select patch_signal patch_socket patch_ssl "
    "patch_subprocess patch_sys patch_thread patch_time",
    "os": "close fork fork_and_watch fork_gevent forkpty forkpty_and_watch forkpty_gevent make_nonblocking "
    "nb_read nb_write posix_spawn posix_spawnp tp_read tp_write waitpid",
    "pool": "Group Pool PoolFull",
    "pywsgi": "Environ LoggingLogAdapter SecureEnviron WSGIHandler WSGISecureEnviron WSGIServer",
    "queue": "Channel Empty Full JoinableQueue LifoQueue PriorityQueue Queue ShutDown SimpleQueue",
    "resolver": "",
    "resolver.ares": "Resolver",
    "resolver.blocking": "Resolver",
    "resolver.dnspython": "Resolver",
    "resolver.thread": "Resolver",
    "resolver_ares": "Resolver",
    "resolver_thread": "Resolver",
    "select": "error poll select",
    "selectors": "DefaultSelector GeventSelector",
    "server": "DatagramServer StreamServer",
    "signal": "getsignal set_wakeup_fd signal",
    "socket": "AF_INET SOCK_STREAM cancel_wait close create_connection create_server dup error fromfd gaierror "
    "getaddrinfo getdefaulttimeout getfqdn gethostbyaddr gethostbyname gethostbyname_ex gethostname "
    "getnameinfo has_dualstack_ipv6 has_ipv6 herror htons inet_aton recv_fds send_fds setdefaulttimeout "
    "socket socketpair timeout wait_read wait_readwrite wait_write",
    "ssl": "SSLContext SSLError SSLSocket create_default_context get_server_certificate",
    "subprocess": "CalledProcessError CompletedProcess DEVNULL PIPE Popen STDOUT SubprocessError TimeoutExpired call "
    "check_call check_output getoutput getstatusoutput run",
    "thread": "LockType TIMEOUT_MAX allocate allocate_lock error exit exit_thread get_ident stack_size start_new "
    "start_new_thread",
    "threading": "",
    "threadpool": "ThreadPool ThreadPoolExecutor ThreadResult",
    "time": "sleep",
    "timeout": "Timeout with_timeout",
    "util": "GreenletTree assert_switches format_run_info print_run_info wrap_errors",
}


def test_the_tables_name_the_same_modules() -> None:
    # Importing this one would run a command.
    assert set(modules.TARGETS) - {"monkey.__main__"} | {""} == set(NAMES)


@pytest.mark.parametrize("module", sorted(NAMES))
def test_names(module: str) -> None:
    if module and not is_there(modules.TARGETS[module]):
        pytest.skip(f"there is no {modules.TARGETS[module]}")
    try:
        facade = import_module(f"oneloop.compat.gevent.{module}") if module else gevent
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.startswith("oneloop"):
            raise
        pytest.skip(f"{missing.name} is not installed")
    for name in NAMES[module].split():
        if name not in modules.OWNERS or module or is_there(modules.OWNERS[name], name):
            if module == "hub" and name in HUB_OWNERS and not is_there(*HUB_OWNERS[name]):
                continue
            assert hasattr(facade, name) or f"{module}.{name}" in MISSING, f"{module}.{name}"


# Names that are not there, and why.
MISSING = {"socket.wait_readwrite": "the sockets are being rewritten"}

HUB_OWNERS = {"reinit": ("oneloop.green.hub", "reinit"), "signal": ("oneloop.green", "signal_handler")}


def is_there(module: str, name: str = "") -> bool:
    """Whether a module of ours exists, with a name."""
    try:
        found = find_spec(module) is not None
    except ModuleNotFoundError:
        # Its package does not.
        return False
    return found and (not name or hasattr(import_module(module), name))


def run_program(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_modules_are_ours() -> None:
    program = """
        from oneloop import compat
        compat.install("gevent")
        import gevent, gevent.event
        from gevent import pool, core
        from gevent.hub import Hub, Waiter, get_hub, linkproxy
        import oneloop.green, oneloop.compat.gevent.hub
        assert gevent is oneloop.compat.gevent and gevent.hub is oneloop.compat.gevent.hub
        assert gevent.event is oneloop.green.event and gevent.event.__spec__.name == "oneloop.green.event"
        assert gevent.pool is pool is oneloop.green.pool
        said = []
        linkproxy(said.append, 5)("ignored")
        print(gevent.spawn(lambda: 3).get(), said, gevent.version_info[0])
        try:
            import gevent._util
        except ImportError as error:
            print(error)
    """
    assert run_program(program) == "3 [5] 26\nNo module named 'gevent._util'\n"


def test_not_after_gevent_itself() -> None:
    program = """
        import sys, types
        from oneloop import compat
        sys.modules["gevent.event"] = types.ModuleType("gevent.event")
        try:
            compat.install("gevent")
        except RuntimeError as error:
            print(error)
    """
    assert run_program(program) == "'gevent.event' was already imported: install the facade before the first import\n"


def test_no_other_names() -> None:
    with pytest.raises(AttributeError, match="gevent"):
        _ = gevent.nothing  # type: ignore[attr-defined]
    assert gevent.Greenlet is green.Greenlet
    assert gevent.getswitchinterval() == sys.getswitchinterval()  # type: ignore[attr-defined]
