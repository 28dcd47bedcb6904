package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// The system's errors are of the network only if a connection met them.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	_, dial := net.Dial("unix", t.TempDir()+"/nobody")
	_, file := os.ReadFile(t.TempDir() + "/nothing")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{dial, true},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, true},
		{context.DeadlineExceeded, true},
		{io.EOF, true},
		{redis.ErrPoolTimeout, true},
		{file, false},
		{os.NewSyscallError("mmap", syscall.ENOMEM), false},
		{syscall.EACCES, false},
		{syscall.ENOSPC, false},
		{errors.New("WRONGTYPE"), false},
	} {
		if err := fmt.Errorf("filter a: %w", c.err); Unreachable(err) != c.want {
			t.Errorf("%v: %t, want %t", err, !c.want, c.want)
		}
	}
}
