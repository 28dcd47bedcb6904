// Package disk performs the file operations that must survive a crash: temporary file,
// sync, rename, sync of the directory. Each operation carries a label, so that a test
// can make exactly that one fail; the package does not decide what a failure means.
//
// It promises that what WriteFile has returned for is on the disk as a whole, under its name, or
// not at all, whatever ends the process or the machine: the bytes are synced before the rename, and
// the directory after it. After a failed sync it must not be tried again: the kernel may have dropped
// the pages, and a second sync would succeed without them.
//
// Record and Hook see every operation: testkit/powerloss makes of the record what a disk may hold
// after a power cut. The lock file makes one process the owner of a directory (lock.go).
package disk
