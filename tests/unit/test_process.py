import subprocess
import sys

from sparkmirror.process import Process


def test_this_process_is_not_dead():
    this = Process.this()
    assert not this.is_dead(this.name)


def test_a_process_that_ended_is_dead():
    code = "from sparkmirror.process import Process; print(Process.this().name)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert Process.this().is_dead(ended)


def test_a_process_number_that_was_given_to_another_process_is_dead():
    this = Process.this()
    host, pid, boot, namespace, started = this.name.split("/")
    assert this.is_dead("/".join((host, pid, boot, namespace, str(int(started) - 1))))


def test_a_process_on_another_host_or_namespace_is_not_judged():
    this = Process.this()
    host, _, boot, namespace, started = this.name.split("/")
    assert not this.is_dead("/".join(("elsewhere", "pid 999999", boot, namespace, started)))
    assert not this.is_dead("/".join((host, "pid 999999", boot, "1", started)))
    assert not this.is_dead("somebody else's name")


def test_a_process_from_before_the_machine_was_started_is_dead():
    host, pid, _, namespace, started = Process.this().name.split("/")
    assert Process.this().is_dead("/".join((host, pid, "00000000", namespace, started)))
