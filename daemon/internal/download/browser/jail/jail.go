// Package jail takes away from a browser what it must not have: every socket but the pairs by which
// its own processes talk, all files but those that it needs, and access to other processes. The
// loss is permanent, also for all programs and processes that it starts. So a page can reach the
// network only through the worker, whatever it makes the browser do. The package starts no browser.
package jail

import "errors"

// ErrUnsupported is wrapped by errors on a system that lacks a mechanism.
var ErrUnsupported = errors.New("this system cannot jail a browser")

// Options say what the process may keep.
type Options struct {
	ReadOnly []string // files and folders, with all below them, that can be read and run; missing ones are skipped
	ReadOne  []string // files that can be read, but not run
	Private  string   // a folder in which it may do everything
	Memory   int64    // bytes of data that each of its processes can write to
	FileSize int64    // bytes of the largest file that it can write
}
