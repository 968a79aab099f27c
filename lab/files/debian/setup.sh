#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Runs once in a new Debian tree: a login without password, and nothing that only costs boot time.
set -e
passwd -d root >/dev/null
touch /etc/fstab
rm -f /etc/machine-id
echo uninitialized >/etc/machine-id
sh /setup-more.sh
rm /setup-more.sh
systemctl mask --quiet apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
	e2scrub_all.timer fstrim.timer systemd-firstboot.service systemd-update-utmp.service \
	systemd-pcrphase.service systemd-pcrphase-sysinit.service systemd-networkd-wait-online.service
apt-get clean
rm -rf /var/lib/apt/lists/*
