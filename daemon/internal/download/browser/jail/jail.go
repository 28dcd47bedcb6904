// Package jail takes away from a browser what it must not have: every socket but the pairs by which
// its own processes talk, all files but those that it needs, and the processes of others. What is
// taken is gone for good, also for the programs and the processes that it starts. So a page reaches
// the network by way of the worker alone, whatever it makes the browser do. The package starts no
// browser.
package jail

import "errors"

// ErrUnsupported is wrapped by errors of a system that lacks a mechanism.
var ErrUnsupported = errors.New("this system cannot jail a browser")

// Options are what the process keeps.
type Options struct {
	ReadOnly []string // files and folders, with all below them, that can be read and run; those that are not there are left out
	ReadOne  []string // that can be read, and not run
	Private  string   // a folder in which it may do everything
	Memory   int64    // bytes of data that each of its processes can write to
	FileSize int64    // bytes of the largest file that it can write
}
