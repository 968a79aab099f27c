# SPDX-License-Identifier: BSD-2-Clause
"""The seventeen rows of the comparison: what runs, where, and how a value and its amount of work are read from it.

A job is one run of a program in guest a; it gives one row, or two where one run measures both (a latency beside its
IOPS). Its script is shell; @NAME@ stands for what a size or a server gives. What reads the output returns
{row: value} and the amount of work, by which counts are divided.
"""
import json
import re
from collections import namedtuple

# better: "higher" or "lower". group: "compute", "disk" or "network".
Row = namedtuple("Row", "name group unit better")
# size: {"full", "count", "short": value of @SIZE@}. needs: what has to be there besides guest a. work: its unit.
Job = namedtuple("Job", "name rows script size needs work read limit_s")

ROWS = [
    Row("7zip", "compute", "MIPS", "higher"),
    Row("sysbench-cpu", "compute", "events/s", "higher"),
    Row("sysbench-memory", "compute", "MiB/s", "higher"),
    Row("redis-build", "compute", "s", "lower"),
    Row("sched-pipe", "compute", "µs", "lower"),
    Row("randread-qd32", "disk", "IOPS", "higher"),
    Row("randwrite-qd32", "disk", "IOPS", "higher"),
    Row("randread-qd1", "disk", "IOPS", "higher"),
    Row("randread-qd1-p99", "disk", "µs", "lower"),
    Row("seqread-qd8", "disk", "MiB/s", "higher"),
    Row("seqwrite-qd8", "disk", "MiB/s", "higher"),
    Row("other-to", "network", "Gbit/s", "higher"),
    Row("other-from", "network", "Gbit/s", "higher"),
    Row("vm-to", "network", "Gbit/s", "higher"),
    Row("vm-from", "network", "Gbit/s", "higher"),
    Row("vm-to-4", "network", "Gbit/s", "higher"),
    Row("vm-from-4", "network", "Gbit/s", "higher"),
]
BY_NAME = {row.name: row for row in ROWS}


class Unreadable(Exception):
    """A program said something else than it should."""


def find(pattern, output):
    match = re.search(pattern, output, re.M)
    if not match:
        raise Unreadable(f"no /{pattern}/ in:\n{output[-2000:]}")
    return match


def read_json(output):
    """The JSON in it; fio puts notes before it."""
    start = output.find("{")
    try:
        return json.loads(output[start:output.rindex("}") + 1])
    except ValueError:
        raise Unreadable(f"no JSON in:\n{output[-2000:]}") from None


def read_7zip(output):
    """The rating of both directions. Work: rating by time, in 10^9 of 7-Zip's instructions."""
    mips = float(find(r"^Tot:.*?(\d+)\s*$", output).group(1))
    seconds = float(find(r"^real-s ([\d.]+)", output).group(1))
    return {"7zip": mips}, mips * seconds / 1000


def read_sysbench_cpu(output):
    return ({"sysbench-cpu": float(find(r"events per second:\s+([\d.]+)", output).group(1))},
            int(find(r"total number of events:\s+(\d+)", output).group(1)))


def read_sysbench_memory(output):
    match = find(r"([\d.]+) MiB transferred \(([\d.]+) MiB/sec\)", output)
    return {"sysbench-memory": float(match.group(2))}, float(match.group(1))


def read_redis(output):
    return {"redis-build": float(find(r"^real-s ([\d.]+)", output).group(1))}, 1


def read_pipe(output):
    operations = int(find(r"Executed (\d+) pipe operations", output).group(1))
    return {"sched-pipe": float(find(r"([\d.]+) usecs/op", output).group(1))}, operations


def read_fio(row, figure):
    def read(output):
        job = read_json(output)["jobs"][0]
        side = job["read"] if job["read"]["total_ios"] else job["write"]
        value = side["iops"] if figure == "iops" else side["bw_bytes"] / (1 << 20)
        return {row: value}, side["total_ios"]
    return read


def read_fio_qd1(output):
    job = read_json(output)["jobs"][0]["read"]
    return ({"randread-qd1": job["iops"], "randread-qd1-p99": job["clat_ns"]["percentile"]["99.000000"] / 1000},
            job["total_ios"])


def read_iperf(row):
    def read(output):
        end = read_json(output).get("end", {}).get("sum_received")
        if not end:
            raise Unreadable(f"iperf3 did not finish:\n{output[-2000:]}")
        return {row: end["bits_per_second"] / 1e9}, end["bytes"] / (1 << 20)
    return read


# The time of the guest's own clock, that no start of the shell is in.
TIMED = "from=$(date +%s.%N); {what}; to=$(date +%s.%N); echo real-s $(echo $from $to | awk '{{print $2 - $1}}')"
SEVEN_ZIP = TIMED.format(what="7z b 1 -mmt2 -md18 -mtime=@SIZE@")
REDIS = ("set -e; rm -rf /tmp/redis; cp -r /usr/src/redis/$(cat /usr/src/redis/version) /tmp/redis; cd /tmp/redis; "
         + TIMED.format(what="make -j4 MALLOC=libc OPTIMIZATION=-O2 @SIZE@ >/tmp/make.out 2>&1 || "
                        "{{ tail -20 /tmp/make.out; exit 1; }}") + "; rm -rf /tmp/redis")
SECONDS = {"full": "6", "count": "3", "short": "1"}


def fio(rw, depth, size):
    return (f"fio --name=x --filename=@DISK@ --direct=1 --ioengine=io_uring --rw={rw} --bs={size} --iodepth={depth} --size=@BYTES@ "
            "--norandommap --time_based --runtime=@SIZE@ --output-format=json")


def disk_job(name, rw, depth, size, figure):
    return Job(name, [name], fio(rw, depth, size), SECONDS, ["disk"], "request", read_fio(name, figure), 180)


def net_job(name, target, more, streams=1):
    script = f"iperf3 -c @{target}@ -t @SIZE@ -P {streams} {more} -J".replace("  ", " ")
    return Job(name, [name], script, SECONDS, ["other" if target == "OTHER" else "guest b"], "MiB", read_iperf(name), 180)


JOBS = [
    Job("7zip", ["7zip"], SEVEN_ZIP, {"full": "3", "count": "1", "short": "1"}, [], "10^9 instructions",
        read_7zip, 400),
    Job("sysbench-cpu", ["sysbench-cpu"], "sysbench cpu --threads=@VCPUS@ --time=@SIZE@ run", SECONDS, [], "event",
        read_sysbench_cpu, 180),
    Job("sysbench-memory", ["sysbench-memory"], "sysbench memory --threads=@VCPUS@ --memory-block-size=1M "
        "--memory-total-size=100T --time=@SIZE@ run", SECONDS, [], "MiB", read_sysbench_memory, 180),
    Job("sched-pipe", ["sched-pipe"], "perf bench sched pipe -l @SIZE@",
        {"full": "15000", "count": "8000", "short": "2000"}, [], "round trip", read_pipe, 120),
    disk_job("randread-qd32", "randread", 32, "4k", "iops"),
    disk_job("randwrite-qd32", "randwrite", 32, "4k", "iops"),
    Job("randread-qd1", ["randread-qd1", "randread-qd1-p99"], fio("randread", 1, "4k"), SECONDS, ["disk"], "request",
        read_fio_qd1, 180),
    disk_job("seqread-qd8", "read", 8, "1m", "MiB/s"),
    disk_job("seqwrite-qd8", "write", 8, "1m", "MiB/s"),
    net_job("other-to", "OTHER", ""),
    net_job("other-from", "OTHER", "-R"),
    net_job("vm-to", "GUEST_B", ""),
    net_job("vm-from", "GUEST_B", "-R"),
    net_job("vm-to-4", "GUEST_B", "", 4),
    net_job("vm-from-4", "GUEST_B", "-R", 4),
    # The longest: whoever has little time leaves it for last. Short: one of the libraries that come with it.
    Job("redis-build", ["redis-build"], REDIS, {"full": "", "count": "-C deps hiredis", "short": "-C deps hiredis"}, [],
        "build", read_redis, 1500),
]
JOB_BY_NAME = {job.name: job for job in JOBS}


def script_of(job, size, values):
    """The job's script with its places filled; values: {"DISK": …, "BYTES": …, "VCPUS": …, "OTHER": …, "GUEST_B": …}."""
    script = job.script.replace("@SIZE@", job.size[size])
    for name, value in values.items():
        script = script.replace(f"@{name}@", str(value))
    return script
