#!/bin/sh
# Mounts a host's root file system and boots it, again after each reboot. It runs in a
# session and a mount name space of its own: the mounts go with its last process.
#
# usage: boot.sh FOLDER TREE MACHINE HOSTNAME NETNS CGROUPS
#
# FOLDER holds upper, work, root, prepare.sh and the images of disks, which the file
# disks lists: IMAGE PATH. CGROUPS are separated by blanks.
set -eu
cd "$1"
trap 'echo $? >ended' EXIT
tree=$2 machine=$3 name=$4 netns=$5 cgroups=$6

for group in $cgroups; do
	mkdir -p "$group/boot" "$group/guest"
	echo $$ >"$group/boot/cgroup.procs"
	# With version 2 a group hands controllers to those below it only when told to.
	if [ -e "$group/cgroup.controllers" ]; then
		for c in $(cat "$group/../../cgroup.controllers"); do
			for above in "$group/../.." "$group/.." "$group"; do
				echo "+$c" >"$above/cgroup.subtree_control" 2>/dev/null || true
			done
		done
	fi
done
# From now on who removes the sandbox sees this process, so its lock is given back.
exec 3<&-

# Relative names, for an overlay's options cannot hold every path.
mount --bind "$tree" tree
mount -t overlay overlay -o lowerdir=tree,upperdir=upper,workdir=work root

while read -r image path; do
	mkdir -p "root$path" fill
	mount -o loop,noatime "$image" fill
	if [ ! -e prepared ]; then
		chmod --reference="root$path" fill
		cp -a "root$path/." fill
	fi
	mount --move fill "root$path"
done <disks

if [ ! -e prepared ]; then
	chroot root /bin/sh -s <prepare.sh
	rm prepare.sh
	touch prepared
fi

# What nspawn keeps of its machines goes with the mounts.
mkdir -p /run/systemd/nspawn
mount -t tmpfs -o mode=755 tmpfs /run/systemd/nspawn

# Its network settings are its own; those of the kernel are the machine's, and read-only.
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network

while :; do
	code=0
	sh -c '
		for group in $1; do echo $$ >"$group/guest/cgroup.procs"; done
		shift
		exec "$@"
	' sh "$cgroups" systemd-nspawn --quiet --settings=no --register=no --keep-unit --boot \
		--directory=root --machine="$machine" --hostname="$name" \
		--network-namespace-path="$netns" --capability=CAP_NET_ADMIN \
		--system-call-filter='landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp' \
		--console=passive --link-journal=no --resolv-conf=off --timezone=off </dev/null || code=$?
	# 133: it has been rebooted.
	[ "$code" = 133 ] || exit "$code"
done
