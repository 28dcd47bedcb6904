package spool

import "golang.org/x/sys/unix"

// diskSpace is what the file system of a folder has in all, and what of it is free.
func diskSpace(dir string) (free, size uint64, ok bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Bsize <= 0 {
		return 0, 0, false
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), true
}
