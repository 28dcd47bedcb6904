package spool

import "golang.org/x/sys/unix"

// diskSpace returns the total and the free size of a folder's file system.
func diskSpace(dir string) (free, size uint64, ok bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Bsize <= 0 {
		return 0, 0, false
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), true
}
