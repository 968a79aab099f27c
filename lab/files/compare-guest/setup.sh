#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs once in the tree of the guest that keelOS and KVM are compared with: Redis' source, as Debian has it.
set -e
chmod 755 /usr/sbin/compare-init /usr/sbin/compare-agent
mkdir -p /usr/src/redis
cd /usr/src/redis
apt-get -q source redis >/dev/null
ls -d redis-*/ | head -1 | tr -d / >version
# Only what is compiled: its tests and documents are not.
cd "$(cat version)"
rm -rf tests debian .pc .github
cd ..
rm -f ./*.tar.* ./*.dsc
apt-get clean
rm -rf /var/lib/apt/lists/*
dpkg-query -W -f '${Package} ${Version}\n' fio iperf3 sysbench 7zip linux-perf gcc make >/etc/compare-versions
echo "redis $(cat /usr/src/redis/version)" >>/etc/compare-versions
echo guest >/etc/hostname
