# SPDX-License-Identifier: BSD-2-Clause
# What is root's own: name, console on ttyS1 (COM1 is hyp's log), the lab's agent, the data disk.
echo root >/etc/hostname
echo keel >>/etc/modules
echo "LABEL=keel-data /srv ext4 noatime,nofail,x-systemd.device-timeout=60s 0 0" >>/etc/fstab
chmod 755 /usr/sbin/lab-agent
systemctl enable --quiet serial-getty@ttyS1.service lab-agent.service systemd-networkd.service
systemctl mask --quiet getty@tty1.service e2scrub_reap.service
