# SPDX-License-Identifier: BSD-2-Clause
# What is a guest's own: a login on ttyS0, and an address from the kernel's command line.
echo guest >/etc/hostname
chmod 755 /usr/sbin/guest-net
systemctl enable --quiet serial-getty@ttyS0.service guest-net.service
systemctl mask --quiet systemd-udev-settle.service
