// Package ptytest gives tests a terminal, and what was written to it.
package ptytest

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Open returns a terminal. shown closes it, and returns what it was sent: the bytes that a person's terminal
// would obey.
func Open(t testing.TB) (terminal *os.File, shown func() string) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(&text, screen) // ends with EIO when nobody has the terminal open
		close(ended)
	}()
	t.Cleanup(func() { _, _ = terminal.Close(), screen.Close() })
	return terminal, func() string {
		_ = terminal.Close()
		<-ended
		return text.String()
	}
}
