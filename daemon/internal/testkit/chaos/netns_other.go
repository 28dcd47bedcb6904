//go:build unix && !linux

package chaos

import (
	"errors"
	"net"
	"os/exec"
)

// netns is a daemon's own network; only Linux has them.
type netns struct{ here string }

func newNetns(uint64, int) (*netns, error) { return nil, errors.ErrUnsupported }

func (n *netns) unplug() error { return errors.ErrUnsupported }
func (n *netns) plug() error   { return errors.ErrUnsupported }
func (n *netns) close()        {}

func (n *netns) command(program string, args ...string) *exec.Cmd {
	return exec.Command(program, args...)
}

func (n *netns) dial(addr string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.Dial("tcp", addr)
}
