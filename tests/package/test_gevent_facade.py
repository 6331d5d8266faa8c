"""`oneloop.compat.gevent`: gevent's names, and how a program gets them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from textwrap import dedent

import pytest

from oneloop import green
from oneloop.compat import gevent
from oneloop.compat.gevent import modules

# `__all__` of gevent 26.9.0's documented modules. Of those that show a module of the standard library, gevent's own names.
NAMES = {
    "": "Greenlet GreenletExit Timeout config fork get_hub getcurrent getswitchinterval idle iwait joinall kill killall "
    "reinit setswitchinterval signal_handler sleep spawn spawn_later spawn_raw wait with_timeout",
    "backdoor": "BackdoorServer",
    "baseserver": "BaseServer",
    "builtins": "",
    "contextvars": "Context ContextVar Token copy_context",
    "core": "embeddable_backends get_header_version get_version loop recommended_backends supported_backends time",
    "event": "AsyncResult Event",
    "events": "DoNotPatch EventLoopBlocked GeventDidPatchAllEvent GeventDidPatchBuiltinModulesEvent "
    "GeventDidPatchModuleEvent GeventPatchEvent GeventWillPatchAllEvent GeventWillPatchEvent GeventWillPatchModuleEvent "
    "IEventLoopBlocked IGeventDidPatchAllEvent IGeventDidPatchBuiltinModulesEvent IGeventDidPatchEvent "
    "IGeventDidPatchModuleEvent IGeventPatchEvent IGeventWillPatchAllEvent IGeventWillPatchEvent "
    "IGeventWillPatchModuleEvent IMemoryUsageThresholdExceeded IMemoryUsageUnderThreshold IPeriodicMonitorThread "
    "IPeriodicMonitorThreadStartedEvent MemoryUsageThresholdExceeded MemoryUsageUnderThreshold "
    "PeriodicMonitorThreadStartedEvent subscribers",
    "exceptions": "LoopExit",
    "fileobject": "FileObject FileObjectBlock FileObjectPosix FileObjectThread",
    "greenlet": "Greenlet joinall killall",
    "hub": "GreenletExit Hub Waiter get_hub getcurrent kill reinit signal sleep spawn_raw",
    "local": "local",
    "lock": "BoundedSemaphore DummySemaphore RLock Semaphore",
    "monkey": "MonkeyPatchWarning get_original is_module_patched is_object_patched main patch_all patch_builtins patch_dns "
    "patch_module patch_os patch_queue patch_select patch_signal patch_socket patch_ssl patch_subprocess patch_sys "
    "patch_thread patch_time",
    "os": "close fork fork_and_watch fork_gevent forkpty forkpty_and_watch forkpty_gevent make_nonblocking nb_read nb_write "
    "posix_spawn posix_spawnp tp_read tp_write waitpid",
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
    "socket": "AF_INET SOCK_STREAM cancel_wait close create_connection create_server dup error fromfd gaierror getaddrinfo "
    "getdefaulttimeout getfqdn gethostbyaddr gethostbyname gethostbyname_ex gethostname getnameinfo has_dualstack_ipv6 "
    "has_ipv6 herror htons inet_aton recv_fds send_fds setdefaulttimeout socket socketpair timeout wait_read "
    "wait_readwrite wait_write",
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

# Names that are not there, and why.
MISSING: dict[str, str] = {}


def there(module: str) -> bool:
    """Whether the module of ours exists."""
    target = modules.TARGETS[module]
    try:
        return find_spec(target) is not None
    except ModuleNotFoundError:
        # Its package does not.
        return False


def test_the_tables_name_the_same_modules() -> None:
    assert set(modules.TARGETS) | {""} == set(NAMES)


@pytest.mark.parametrize("module", sorted(NAMES))
def test_names(module: str) -> None:
    if module and not there(module):
        pytest.skip(f"{modules.TARGETS[module]} is not written yet")
    facade = import_module(f"oneloop.compat.gevent.{module}") if module else gevent
    for name in NAMES[module].split():
        full = f"{module}.{name}" if module else name
        owner = modules.OWNERS.get(name)
        if not module and owner is not None and not hasattr(import_module("oneloop.green"), name) and not ready(owner, name):
            continue
        assert hasattr(facade, name) == (full not in MISSING), full


def ready(owner: str, name: str) -> bool:
    """Whether the module that is to have a name has it."""
    return find_spec(owner) is not None and hasattr(import_module(owner), name)
