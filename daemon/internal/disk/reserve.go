package disk

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// IsShortage tells whether err means that the process or the machine has no descriptor
// or no memory left at present: the operation has not been done, and may be tried again.
func IsShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// A few descriptors are kept in reserve, so that files can be opened even if connections
// have taken all others. One is given up for a file that could not be opened otherwise,
// and replaced when a file is closed.
const reserved = 16

var reserve struct {
	sync.Mutex
	kept   []*os.File
	wanted int // 0 until KeepReserve
}

// KeepReserve fills the reserve; it is for a process that serves connections. Descriptors
// that are not available now are added later.
func KeepReserve() {
	reserve.Lock()
	reserve.wanted = reserved
	reserve.Unlock()
	refill()
}

// refill opens the descriptors that the reserve lacks.
func refill() {
	reserve.Lock()
	defer reserve.Unlock()
	for len(reserve.kept) < reserve.wanted {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		reserve.kept = append(reserve.kept, f)
	}
}

// openReserved calls open, and gives up a descriptor of the reserve if there is no other.
// Somebody else may be quicker to take that one; then the next is given up.
func openReserved(open func() (*os.File, error)) (*os.File, error) {
	for {
		f, err := open()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || !giveUpOne() {
			return f, err
		}
	}
}

func giveUpOne() bool {
	reserve.Lock()
	defer reserve.Unlock()
	n := len(reserve.kept)
	if n == 0 {
		return false
	}
	_ = reserve.kept[n-1].Close()
	reserve.kept = reserve.kept[:n-1]
	return true
}
