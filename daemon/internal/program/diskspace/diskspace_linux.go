package diskspace

import "golang.org/x/sys/unix"

// Of returns the free and the total size of the file system of a folder, in bytes, if that can be known.
func Of(dir string) (free, size uint64, ok bool) {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Bsize <= 0 {
		return 0, 0, false
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), true
}
